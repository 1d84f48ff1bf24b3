//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestWhatWasPreviewedIsWhatIsDoneAndEachChangeIsInTheAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(7)
	w.exec(`INSERT INTO connectors (name, type, user_id, scope) VALUES ('Source of all', 'web', 8, 'org'), ('Source of another', 'web', 8, 'user')`)
	w.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('Letters', 'web', 7)`)
	me, filter := w.as(7, identity.User), map[string]any{"name": "source", "type": "web"}
	seen := me.previews("disable", filter)
	require.EqualValues(t, 7, seen["matched"])
	require.EqualValues(t, 1, seen["left_out"], "what is seen and may not be changed")
	require.Len(t, seen["examples"], 5)
	require.Equal(t, false, seen["at_least"])
	require.Zero(t, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`))

	path := me.begins("disable", filter, "Audit-Note", "the site moves")
	me.stands(path, map[string]any{"state": "waiting", "matched": 7, "left_out": 1, "done": 0, "user_id": 7, "action": "disable"})
	w.finish(w.worker())
	got := me.stands(path, map[string]any{"state": "completed", "done": 7, "changed": 7, "unchanged": 0, "skipped": 0, "failed": 0, "error": nil})
	require.NotNil(t, got["began_at"])
	require.NotNil(t, got["ended_at"])
	require.Equal(t, filter, got["filter"])
	require.Equal(t, 7, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED' AND user_id = 7 AND name LIKE 'Source%' AND status_message = 'disabled by user 7'`))
	require.Equal(t, 7, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`), "and no other")
	require.Equal(t, 7, one[int](w, `SELECT count(DISTINCT connector_id) FROM audit WHERE action = 'connectors.disable' AND request_id = 'operation/' || $1::text AND note = 'the site moves'
		AND user_id = 7 AND token_id IS NOT NULL AND source = 'api'`, fmt.Sprint(got["id"])))
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM audit WHERE action = 'operations.create' AND after ->> 'matched' = '7' AND user_id = 7`))

	path = me.begins("enable", filter)
	w.exec(`SELECT moves.enable(min(id)) FROM connectors WHERE status = 'DISABLED'`)
	w.finish(w.worker())
	me.stands(path, map[string]any{"state": "completed", "changed": 6, "unchanged": 1})
	me.begins("delete", filter)
	w.finish(w.worker())
	require.Equal(t, 3, one[int](w, `SELECT count(*) FROM connectors`))
	require.Len(t, me.get("/operations")["operations"], 3)
}

func TestAnOperationIsDoneToWhatItsUserMayChangeOfEachOwnership(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	w.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('tidy', 'job', true, 0)`)
	for _, role := range identity.Roles {
		for _, s := range []standing{{role, false, false}, {role, true, false}, {role, true, true}} {
			w.exec(`DELETE FROM group_members`)
			who := identity.Who{UserID: 7, Role: role}
			if s.member {
				w.exec(`INSERT INTO group_members VALUES (7, 'g', $1)`, s.leader)
				who.Groups = []string{"g"}
			}
			if s.leader {
				who.Leads = []string{"g"}
			}
			changes, leaves := map[int32]bool{}, 0
			for _, of := range []identity.Ownership{
				{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 7, Scope: "group", GroupID: "h"},
				{UserID: 8, Scope: "org"}, {UserID: 7, Scope: "user", System: true}, {UserID: 8, Scope: "org", System: true}, {Scope: "system", System: true},
			} {
				c := w.something(of)
				changes[c.id] = who.Changes(of)
				if who.Sees(of) && !who.Changes(of) {
					leaves++
				}
			}
			me := w.as(7, role)
			seen := me.previews("disable", nil)
			require.EqualValues(t, leaves, seen["left_out"], "%+v", s)
			me.begins("disable", nil)
			w.finish(a)
			for id, yes := range changes {
				require.Equal(t, yes, one[string](w, `SELECT status FROM connectors WHERE id = $1`, id) == "DISABLED", "%+v and connector %d", s, id)
			}
			w.exec(`DELETE FROM connectors`)
		}
	}
}

func TestATokenDoesToManyWhatItMayDoToOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(3)
	all := w.as(7, identity.User)
	for _, scope := range identity.Scopes {
		me := w.as(7, identity.User, scope)
		for action, needs := range map[string]identity.Scope{"sync": identity.Operate, "enable": identity.Operate, "disable": identity.Operate, "delete": identity.Write} {
			confirm := all.previews(action, nil)["confirm"]
			for _, got := range []reply{me.do("POST", "/operations/preview", bulkOf(action, nil)), me.asks(action, nil, confirm)} {
				if scope != needs {
					me.refused(http.StatusForbidden, "forbidden", got)
				} else {
					require.Less(t, got.status, 300, got.text)
				}
			}
			w.exec(`DELETE FROM operations`)
		}
	}
}

func TestOfAnotherUsersOperationNothingIsSeenButBySuperadmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(3)
	path := w.as(7, identity.User).begins("disable", nil)
	other := w.as(8, identity.Admin)
	for _, got := range []reply{other.do("GET", path, nil), other.do("GET", path+"/results", nil), other.do("POST", path+"/cancel", nil)} {
		other.refused(http.StatusNotFound, "not-found", got)
	}
	require.Empty(t, other.get("/operations")["operations"])
	all := w.as(9, identity.Superadmin)
	require.Len(t, all.get("/operations")["operations"], 1)
	require.Equal(t, http.StatusOK, all.do("POST", path+"/cancel", nil).status)
	w.as(7, identity.User).stands(path, map[string]any{"state": "cancelled", "changed": 0})
}

func TestAConfirmIsForTheActionTheFilterAndTheUserOfItsPreviewAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(3)
	me, filter := w.as(7, identity.User), map[string]any{"type": "web"}
	confirm := me.previews("disable", filter)["confirm"].(string)
	for _, got := range []reply{
		me.asks("delete", filter, confirm), me.asks("disable", nil, confirm), me.asks("disable", map[string]any{"type": "file"}, confirm),
		w.as(8, identity.Superadmin).asks("disable", filter, confirm), me.asks("disable", filter, "x"), me.asks("disable", filter, confirm[:len(confirm)-2]),
	} {
		me.refused(http.StatusUnprocessableEntity, "invalid", got)
		require.Contains(t, got.text, "body.confirm")
	}
	require.Zero(t, one[int](w, `SELECT count(*) FROM operations`))
	first, again := me.asks("disable", filter, confirm, "Idempotency-Key", "k"), me.asks("disable", filter, confirm, "Idempotency-Key", "k")
	require.Equal(t, http.StatusAccepted, again.status, again.text)
	require.Equal(t, first.body["id"], again.body["id"])
	for _, wrong := range []map[string]any{bulkOf("burn", nil), bulkOf("sync", map[string]any{"status": "ODD"}), bulkOf("sync", map[string]any{"colour": "red"}), bulkOf("sync", map[string]any{"name": "a\x00b"}), {"action": "sync"}} {
		require.Equal(t, http.StatusUnprocessableEntity, me.do("POST", "/operations/preview", wrong).status, wrong)
	}
}

func TestWhereMuchMoreMatchesThanWasPreviewedNothingIsBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(20)
	me := w.as(7, identity.User)
	disable, remove := me.previews("disable", nil)["confirm"], me.previews("delete", nil)["confirm"]
	w.connectors(1)
	me.refused(http.StatusConflict, "conflict", me.asks("delete", nil, remove))
	w.connectors(11)
	require.Equal(t, http.StatusAccepted, me.asks("disable", nil, disable).status, "12 more than 20")
	w.connectors(1)
	refused := me.asks("disable", nil, disable)
	me.refused(http.StatusConflict, "conflict", refused)
	require.Contains(t, refused.text, "20 matched")
	w.exec(`DELETE FROM connectors`)
	me.refused(http.StatusConflict, "conflict", me.asks("disable", nil, disable))
	require.Nil(t, me.previews("disable", nil)["confirm"])
}

func TestMoreThanOneOperationTakesIsNotConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(4)
	a := w.worker()
	a.BoundOperations(3)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	me := w.as(7, identity.User)
	confirm := me.previews("disable", nil)["confirm"]
	w.server = server
	seen := me.previews("disable", nil)
	require.Equal(t, true, seen["at_least"])
	require.EqualValues(t, 3, seen["matched"])
	require.Nil(t, seen["confirm"])
	me.refused(http.StatusConflict, "conflict", me.asks("disable", nil, confirm))
}

func TestAUserHasTwelveOperationsAndTwoOfThemAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(60)
	me, a := w.as(7, identity.User), w.worker()
	for range 12 {
		me.begins("disable", nil)
	}
	me.refused(http.StatusConflict, "conflict", me.asks("disable", nil, me.previews("disable", nil)["confirm"]))
	for range 4 {
		require.True(t, w.batch(a))
		require.LessOrEqual(t, one[int](w, `SELECT count(*) FROM operations WHERE state = 'running'`), 2)
	}
	w.finish(a)
	require.Equal(t, 12, one[int](w, `SELECT count(*) FROM operations WHERE state = 'completed' AND changed + unchanged = 60`))
	require.Equal(t, 60, one[int](w, `SELECT sum(changed)::integer FROM operations`))
}
