package api_test

import (
	"fmt"
	"strings"
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

func TestAChainIsWrittenChangedAndRemovedByWhoChangesItsConnector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	first, second := w.connector(7, "user"), w.connector(8, "org")
	added := me.do("POST", "/connectors", map[string]any{"name": "c", "type": "web", "run_after": []any{
		map[string]any{"connector_id": first, "accepts": "skipped", "max_age_minutes": 60, "timeout_minutes": nil}, map[string]any{"connector_id": second}}})
	require.Equal(t, 201, added.status, added.text)
	require.Nil(t, added.body["refresh_freq_minutes"], "it runs when those have ended, and at no time of its own")
	row := func(id int32, accepts string, age, timeout any) map[string]any {
		return map[string]any{"connector_id": float64(id), "accepts": accepts, "max_age_minutes": age, "timeout_minutes": timeout}
	}
	require.Equal(t, []any{row(first, "skipped", 60.0, nil), row(second, "completed", nil, nil)}, added.body["run_after"])
	path := fmt.Sprintf("/connectors/%v", added.body["id"])

	same := me.do("PATCH", path, map[string]any{"run_after": added.body["run_after"]}, "If-Match", added.header.Get("ETag"))
	require.Equal(t, []any{200, added.header.Get("ETag")}, []any{same.status, same.header.Get("ETag")}, same.text)
	changed := me.do("PATCH", path, map[string]any{"run_after": []any{row(second, "completed", nil, 30.0)}}, "If-Match", added.header.Get("ETag"))
	require.Equal(t, 200, changed.status, changed.text)
	require.Equal(t, []any{row(second, "completed", nil, 30.0)}, changed.body["run_after"])
	require.NotEqual(t, added.header.Get("ETag"), changed.header.Get("ETag"))
	me.refused(412, "precondition-failed", me.do("PATCH", path, after(), "If-Match", added.header.Get("ETag")))
	renamed := me.do("PATCH", path, map[string]any{"name": "d"}, "If-Match", "*")
	require.Equal(t, changed.body["run_after"], renamed.body["run_after"], "what is left out stays")
	for _, none := range []string{`{"run_after":null,"name":"e"}`, `{"run_after":[]}`} {
		require.Equal(t, []any{}, me.do("PATCH", path, none, "If-Match", "*").body["run_after"])
	}
	require.Equal(t, "run_after.create,run_after.create,run_after.delete,run_after.update,run_after.delete",
		one[string](w, `SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE action LIKE 'run_after.%' AND person = 'user 7'`))
}

func TestWhoMayChangeAConnectorAloneSaysWhomItRunsAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, org := w.connector(7, "user"), w.connector(8, "org")
	first := w.connector(8, "org")
	write := func(c caller, id int32) reply {
		return c.do("PATCH", fmt.Sprintf("/connectors/%d", id), after(first), "If-Match", "*")
	}
	owner, other, admin, super := w.as(7, identity.User), w.as(8, identity.User), w.as(9, identity.Admin), w.as(1, identity.Superadmin)
	for _, c := range []caller{other, admin} {
		c.refused(404, "not-found", write(c, mine))
		c.refused(403, "forbidden", write(c, org))
	}
	require.Equal(t, 0, one[int](w, `SELECT count(*) FROM run_after`))
	require.Equal(t, 200, write(owner, mine).status)
	require.Equal(t, 200, write(super, org).status)
	owner.refused(403, "forbidden", w.as(7, identity.User, identity.Operate).do("PATCH", fmt.Sprintf("/connectors/%d", mine), after(), "If-Match", "*"))
}

func TestWhatIsWrongWithAChainIsSaidByItsField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	first, second, theirs := w.connector(7, "user"), w.connector(7, "user"), w.connector(8, "user")
	path := fmt.Sprintf("/connectors/%d", first)
	says := func(body any, field, words string) {
		t.Helper()
		r := me.do("PATCH", path, body, "If-Match", "*")
		me.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"`+field)
		require.Contains(t, r.text, words)
	}
	says(after(first), "body.run_after[0].connector_id", fmt.Sprintf("%d is the connector itself; name another", first))
	says(after(second, second), "body.run_after[1].connector_id", fmt.Sprintf("%d is named twice", second))
	// One that is not seen is as one that is not there.
	says(after(second, theirs), "body.run_after[1].connector_id", fmt.Sprintf("%d is no connector that you may see; name one that /api/v1/connectors lists", theirs))
	says(after(99_999), "body.run_after[0].connector_id", "99999 is no connector that you may see; name one that /api/v1/connectors lists")
	says(`{"run_after":[{"connector_id":1,"accepts":"all"}]}`, "body.run_after[0].accepts", "")
	says(`{"run_after":[{"connector_id":1,"timeout_minutes":0}]}`, "body.run_after[0].timeout_minutes", "")
	says(`{"run_after":[`+strings.Repeat(`{"connector_id":1},`, 1000)+`{"connector_id":1}]}`, "body.run_after", "1000")
	require.Equal(t, 200, me.do("PATCH", fmt.Sprintf("/connectors/%d", second), after(first), "If-Match", "*").status)
	says(after(second), "body.run_after", fmt.Sprintf("a connector would run after itself: %d after %d after %d; take one of these away", first, second, first))
	// Somebody who sees an upstream names it for an owner who does not.
	me = w.as(1, identity.Superadmin)
	says(after(theirs), "body.run_after", fmt.Sprintf("upstream_id is %d, which does not exist, or which the owner of connector", theirs))
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM run_after`))
}

func TestACycleThroughConnectorsOfOthersDoesNotNameThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true)`)
	mine, public, hidden := w.connector(7, "group"), w.connector(8, "org"), w.connector(8, "user")
	w.exec(`INSERT INTO group_members VALUES (8, 'g', false)`)
	w.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2), ($2, $3)`, public, hidden, mine)
	r := w.as(7, identity.User).do("PATCH", fmt.Sprintf("/connectors/%d", mine), after(public), "If-Match", "*")
	require.Equal(t, 422, r.status, r.text)
	require.Contains(t, r.text, fmt.Sprintf("a connector would run after itself: %d after %d after another after %d", mine, public, mine))
}

// Who leads a group does not see what its members keep to themselves, and takes it from nobody's chain.
func TestAnUpstreamThatTheWriterDoesNotSeeStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true), (8, 'g', false)`)
	theirs, hidden, first := w.connector(8, "group"), w.connector(8, "user"), w.connector(7, "org")
	w.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, theirs, hidden)
	r := w.as(7, identity.User).do("PATCH", fmt.Sprintf("/connectors/%d", theirs), after(first), "If-Match", "*")
	require.Equal(t, 200, r.status, r.text)
	require.Len(t, r.body["run_after"], 1)
	require.Equal(t, []int32{hidden, first}, one[[]int32](w, `SELECT array_agg(upstream_id ORDER BY upstream_id) FROM run_after`))
	require.Equal(t, 200, w.as(7, identity.User).do("PATCH", fmt.Sprintf("/connectors/%d", theirs), after(), "If-Match", "*").status)
	require.Equal(t, hidden, one[int32](w, `SELECT upstream_id FROM run_after`))
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
