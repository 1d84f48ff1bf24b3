//go:build !race

// One thing after another: there is no race to find.

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

func TestTheQueueSaysForWhatEachWaitsTheLongestFirst(t *testing.T) {
	t.Parallel()
	w := withNATS(t)
	holder, locked, sent := w.something(identity.Ownership{UserID: 8, Scope: "user"}), w.something(identity.Ownership{UserID: 7, Scope: "user"}), w.something(identity.Ownership{UserID: 7, Scope: "user"})
	holds, waits := movestest.PickUp(w, w.conn, holder.id, holder.run, time.Hour), movestest.PickUp(w, w.conn, locked.id, locked.run, time.Hour)
	w.exec(`SELECT FROM moves.acquire_lock($1, $2, 'gpu:1', '1 hour', true)`, holds.Run, holds.ID)
	w.exec(`SELECT FROM moves.acquire_lock($1, $2, 'gpu:1', '1 hour', true)`, waits.Run, waits.ID)
	w.exec(`UPDATE lock_waiters SET expires_at = clock_timestamp() + interval '1 hour'`) // it asks again, as a worker does, however slow the machine is
	w.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('tenant-42', 1)`)
	w.exec(`INSERT INTO key_places (key, run_id, connector_id, user_id) VALUES ('tenant-42', $1, $2, 8)`, holder.run, holder.id)
	add := func(name string, keys any) int32 {
		return one[int32](w, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys) VALUES ($1, 'web', 7, 60, $2) RETURNING id`, name, keys)
	}
	key, first, second := add("key", []string{"tenant-42"}), add("first", nil), add("second", nil)
	movestest.Force(w, w.conn, `UPDATE connectors SET next_sync_at = now() - interval '3 hours' WHERE name = 'first'`)
	movestest.Force(w, w.conn, `UPDATE connectors SET next_sync_at = now() - interval '2 hours' WHERE name = 'second'`)
	movestest.Force(w, w.conn, `UPDATE connectors SET next_sync_at = now() - interval '1 hour' WHERE name = 'key'`)
	w.exec(`SELECT moves.park(ARRAY[$1::int], ARRAY['tenant-42'])`, key)
	w.exec(`UPDATE open_runs SET dispatched_at = clock_timestamp() - interval '30 minutes' WHERE id = $1`, sent.run)
	me := w.as(7, identity.User)
	want := []string{fmt.Sprint(first, " ACTIVE scheduler_idle 1"), fmt.Sprint(second, " ACTIVE due_now 2"), fmt.Sprint(key, " ACTIVE waits_for_key <nil>"),
		fmt.Sprint(sent.id, " PENDING message_lost 1"), fmt.Sprint(locked.id, " SYNCING waits_for_lock <nil>")}
	for _, size := range []int{1, 2, 50} {
		require.Equal(t, want, me.queued(size))
	}
	require.Empty(t, w.as(9, identity.User).queued(2))
	require.NotContains(t, fmt.Sprint(me.get("/queue")), fmt.Sprintf("connector %d", holder.id))
	page := me.signedIn().get("/queue")
	require.Equal(t, http.StatusOK, page.status, page.text)
	w.harmless(page)
	for _, text := range []string{"gpu:1", "concurrency key tenant-42 is full", "no scheduler dispatches it", `<use href="#i-pending"/></svg>Due`, `<use href="#i-pending"/></svg>Waiting`, `<use href="#i-syncing"/></svg>Syncing`,
		"Who can do something: the operator: a scheduler is to work"} {
		require.Contains(t, page.text, text)
	}
	me.refused(http.StatusUnprocessableEntity, "invalid", me.do("GET", "/queue?page_size=51", nil))
	me.refused(http.StatusForbidden, "forbidden", w.as(7, identity.User, identity.Operate).do("GET", "/queue", nil))
}

// queued is the queue, page by page.
func (c caller) queued(size int) (all []string) {
	c.Helper()
	for token := ""; ; {
		page := c.get(fmt.Sprintf("/queue?page_size=%d%s", size, token))
		for _, found := range page["waiting"].([]any) {
			w := found.(map[string]any)
			all = append(all, fmt.Sprint(w["connector_id"], " ", w["status"], " ", w["cause"], " ", w["position"]))
		}
		next, more := page["next_page_token"].(string)
		if !more {
			return all
		}
		token = "&page_token=" + url.QueryEscape(next)
	}
}

func TestTheQueueHasWhatItsViewerSees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	w.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('tidy', 'job', true, 0)`)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
	for _, of := range []identity.Ownership{{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 7, Scope: "group", GroupID: "h"},
		{UserID: 8, Scope: "org"}, {UserID: 8, Scope: "org", System: true}, {Scope: "system", System: true}} {
		c := w.something(of)
		for _, role := range identity.Roles {
			who, me := identity.Who{UserID: 7, Role: role, Groups: []string{"g"}}, w.as(7, role)
			require.Equal(t, who.Sees(of), strings.HasPrefix(strings.Join(me.queued(50), ""), fmt.Sprint(c.id, " PENDING")), "%s of %+v", role, of)
			require.Equal(t, who.Sees(of), strings.Contains(me.signedIn().get("/queue").text, fmt.Sprintf(`"/sources/%d"`, c.id)), "%s of %+v", role, of)
		}
		w.exec(`DELETE FROM connectors`)
	}
}
