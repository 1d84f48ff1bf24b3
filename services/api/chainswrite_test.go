package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// connector makes one of a user's, of a scope.
func (w *world) connector(user int32, scope string) int32 {
	w.Helper()
	return one[int32](w, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('x', 'web', $1, $2, CASE $2 WHEN 'group' THEN 'g' END) RETURNING id`, user, scope)
}

// after is a body that says whom a connector runs after.
func after(ids ...int32) map[string]any {
	all := []any{}
	for _, id := range ids {
		all = append(all, map[string]any{"connector_id": id})
	}
	return map[string]any{"run_after": all}
}

func TestWhoseChangesOfChainsWaitForARowKeepNobodyElseWaitingForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, other := w.as(7, identity.User), w.as(8, identity.User)
	held, upstream, theirs := w.connector(7, "user"), w.connector(7, "user"), w.connector(8, "user")
	w.exec(`BEGIN`)
	w.exec(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, held)
	ended := make(chan int)
	for range 3 {
		go func() {
			ended <- me.do("PATCH", fmt.Sprintf("/connectors/%d", held), after(upstream), "If-Match", "*").status
		}()
	}
	require.Eventually(t, func() bool {
		return one[bool](w, `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND l.locktype = 'advisory')`)
	}, time.Minute, time.Millisecond)
	written := other.do("PATCH", fmt.Sprintf("/connectors/%d", theirs), after(), "If-Match", "*")
	require.Equal(t, 200, written.status, written.text)
	for range 3 {
		require.Equal(t, 409, <-ended)
	}
	w.exec(`ROLLBACK`)
}

func TestChangesOfChainsThatWaitForTheirTurnHoldOneConnectionAndOthersAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // with four connections
	first, looks := w.connector(99, "org"), w.as(50, identity.User)
	looks.get("/me")
	var users []caller
	var paths []string
	for user := range int32(6) {
		users, paths = append(users, w.as(10+user, identity.User)), append(paths, fmt.Sprintf("/connectors/%d", w.connector(10+user, "user")))
	}
	w.exec(`BEGIN`)
	w.exec(`SELECT pg_advisory_xact_lock(hashtext('echomind.run_after'))`)
	changed := make(chan reply, 2*len(users))
	for n := range cap(changed) {
		go func() { changed <- users[n/2].do("PATCH", paths[n/2], after(first), "If-Match", "*") }()
	}
	waiting := func() int {
		return one[int](w, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database() AND l.locktype = 'advisory'`)
	}
	require.Eventually(t, func() bool { return waiting() > 0 }, time.Minute, time.Millisecond)
	for range 50 {
		require.LessOrEqual(t, waiting(), 1)
		looks.get("/me")
	}
	for range cap(changed) / 2 { // who waits in vain is told so: as many as that do, whoever holds the turn
		r := <-changed
		looks.refused(409, "conflict", r)
		require.NotEmpty(t, r.header.Get("Retry-After"))
	}
	w.exec(`ROLLBACK`)
	for range cap(changed) / 2 {
		require.Contains(t, []int{200, 409}, (<-changed).status)
	}
	require.Equal(t, 200, looks.do("PATCH", fmt.Sprintf("/connectors/%d", w.connector(50, "user")), after(first), "If-Match", "*").status)
}
