//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

func TestABatchWhoseConnectionDiesBeforeItIsWrittenDownIsDoneOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(60)
	me, a := w.as(7, identity.User), w.worker()
	path := me.begins("disable", nil)
	w.exec(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$`)
	w.exec(`CREATE TRIGGER die BEFORE UPDATE OF changed ON operations FOR EACH ROW EXECUTE FUNCTION die()`)
	w.hurry()
	_, err := a.WorkBatch(t.Context())
	require.Error(t, err)
	require.Zero(t, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`))
	require.Zero(t, one[int](w, `SELECT count(*) FROM audit WHERE action = 'connectors.disable'`))
	me.stands(path, map[string]any{"state": "waiting", "done": 0})
	w.exec(`DROP TRIGGER die ON operations`)
	w.finish(a)
	me.stands(path, map[string]any{"state": "completed", "changed": 60})
	require.Equal(t, 60, one[int](w, `SELECT count(*) FROM audit WHERE action = 'connectors.disable'`))
}

func TestACancelledOperationDoesNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(120)
	me, a := w.as(7, identity.User), w.worker()
	path := me.begins("disable", nil)
	require.True(t, w.batch(a))
	me.stands(path, map[string]any{"state": "running", "done": 50})
	require.Equal(t, http.StatusOK, me.do("POST", path+"/cancel", nil).status)
	require.False(t, w.batch(a))
	me.stands(path, map[string]any{"state": "cancelled", "done": 50, "changed": 50})
	require.Equal(t, 50, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`))
	require.Zero(t, one[int](w, `SELECT count(*) FROM operation_batches`))
	require.Equal(t, http.StatusOK, me.do("POST", path+"/cancel", nil).status, "it stands so already")
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM audit WHERE action = 'operations.cancel' AND user_id = 7`))
}

func TestARightThatIsLostMeanwhileIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id) SELECT 'x', 'web', 8, 'group', 'g' FROM generate_series(1, 120)`)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true)`)
	me := w.as(7, identity.User)
	path := me.begins("disable", map[string]any{"scope": "group", "scope_id": "g"})
	require.True(t, w.batch(a))
	w.exec(`UPDATE group_members SET leads = false`)
	require.True(t, w.batch(a))
	w.exec(`DELETE FROM group_members`)
	w.finish(a)
	me.stands(path, map[string]any{"state": "completed", "changed": 50, "skipped": 70})
	require.Equal(t, 50, one[int](w, `SELECT count(*) FROM operation_results WHERE reason = 'You may not change it any more.'`))
	require.Equal(t, 20, one[int](w, `SELECT count(*) FROM operation_results WHERE reason = 'It is gone, or you do not see it any more.'`))
	require.Equal(t, 50, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`))

	boss := w.as(9, identity.Superadmin)
	path = boss.begins("delete", nil)
	w.exec(`INSERT INTO users VALUES (9, 'user')`)
	w.finish(a)
	boss.stands(path, map[string]any{"state": "completed", "changed": 0, "skipped": 120})
	require.Equal(t, 120, one[int](w, `SELECT count(*) FROM connectors`))
}

func TestAnOperationEndsWithTheTokenThatAskedForItAndNotWithASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.connectors(60)
	me, again := w.as(7, identity.User), w.as(7, identity.User)
	path := me.begins("disable", nil)
	require.True(t, w.batch(a))
	w.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = (SELECT token_id FROM operations)`)
	w.finish(a)
	got := again.stands(path, map[string]any{"state": "failed", "changed": 50})
	require.Contains(t, got["error"], "does not count any more")

	b := again.signedIn()
	page := b.get("/operations/new?action=enable&status=DISABLED")
	require.Equal(t, http.StatusOK, b.do("POST", "/operations", formOf(w, page.text)).status)
	require.Equal(t, http.StatusOK, b.do("POST", "/sign-out", url.Values{}).status)
	require.Zero(t, w.sessions())
	w.finish(a)
	require.Zero(t, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`))
}

func TestAConnectorThatSomebodyElseHoldsIsTriedAgainAFewTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	first := w.connectors(3)
	me := w.as(7, identity.User)
	other, err := pgx.Connect(t.Context(), w.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close(t.Context()) })
	hold := func() pgx.Tx {
		tx, err := other.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, first)
		require.NoError(t, err)
		return tx
	}
	held := hold()
	path := me.begins("disable", nil)
	w.finish(a)
	me.stands(path, map[string]any{"state": "completed", "changed": 2, "failed": 1})
	require.NoError(t, held.Rollback(t.Context()))
	results := me.get(path + "/results?result=failed")["results"].([]any)
	require.Len(t, results, 1)
	require.Subset(t, results[0], map[string]any{"connector_id": float64(first), "name": "Source 1", "result": "failed", "reason": "Somebody else held it, at each of 5 tries."})

	held = hold()
	path = me.begins("enable", nil)
	require.True(t, w.batch(a))
	me.stands(path, map[string]any{"state": "running", "changed": 2, "done": 2})
	require.NoError(t, held.Rollback(t.Context()))
	w.finish(a)
	me.stands(path, map[string]any{"state": "completed", "unchanged": 1, "done": 3}) // it was held when it was to be disabled
}

func TestWhatIsRefusedOfOneConnectorIsSaidOfThatAndStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	first := w.connectors(6)
	me := w.as(7, identity.User)
	path := me.begins("sync", nil)
	w.exec(`SELECT moves.disable(id, 'x') FROM connectors WHERE id < $1`, first+3)
	w.exec(`DELETE FROM connectors WHERE id = $1`, first+5)
	w.finish(a)
	me.stands(path, map[string]any{"state": "completed", "changed": 2, "failed": 3, "skipped": 1})
	require.Equal(t, 2, one[int](w, `SELECT count(*) FROM connectors WHERE trigger_requested_at IS NOT NULL`))
	page := me.get(path + "/results?page_size=3")
	require.Len(t, page["results"], 3)
	require.Subset(t, page["results"].([]any)[0], map[string]any{"reason": "The connector is disabled.", "result": "failed"})
	rest := me.get(path + "/results?page_size=3&page_token=" + page["next_page_token"].(string))
	require.Len(t, rest["results"], 1)
	require.Subset(t, rest["results"].([]any)[0], map[string]any{"connector_id": float64(first + 5), "name": nil, "result": "skipped"})
	require.Nil(t, rest["next_page_token"])
	me.refused(http.StatusUnprocessableEntity, "invalid", me.do("GET", path+"/results?result=failed&page_token="+page["next_page_token"].(string), nil))
}

func TestWhatMatchesTheFilterNoMoreIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.connectors(3)
	me := w.as(7, identity.User)
	path := me.begins("delete", map[string]any{"status": "ACTIVE"})
	w.exec(`SELECT moves.disable($1, 'kept')`, first)
	w.finish(w.worker())
	me.stands(path, map[string]any{"state": "completed", "changed": 2, "skipped": 1})
	require.Equal(t, first, one[int32](w, `SELECT id FROM connectors`))
}

func TestASyncOfManyGoesOnWhenFewOfThoseItHasTriggeredWaitForAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	first := w.connectors(160)
	me := w.as(7, identity.User)
	path := me.begins("sync", nil)
	require.True(t, w.batch(a))
	require.True(t, w.batch(a))
	require.False(t, w.batch(a), "100 wait")
	me.stands(path, map[string]any{"state": "running", "changed": 100, "unbegun": 100})
	run := movestest.Claim(w, w.conn, first)
	require.False(t, w.batch(a), "one of them waits for a worker")
	movestest.PickUp(w, w.conn, first, run, time.Minute)
	require.True(t, w.batch(a))
	require.False(t, w.batch(a))
	me.stands(path, map[string]any{"state": "running", "changed": 150, "unbegun": 149})
	w.exec(`SELECT moves.disable(id, 'x') FROM connectors WHERE id < $1`, first+60) // they wait no more
	w.finish(a)
	me.stands(path, map[string]any{"state": "completed", "changed": 160, "unbegun": 0})
}

func TestAnOperationIsRemovedSevenDaysAfterItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.connectors(3)
	me := w.as(7, identity.User)
	old := me.begins("sync", nil)
	w.exec(`SELECT moves.disable(id, 'x') FROM connectors`)
	w.finish(a)
	w.exec(`UPDATE operations SET ended_at = clock_timestamp() - interval '8 days'`)
	late, open := me.begins("enable", nil), me.begins("enable", nil)
	require.Equal(t, http.StatusOK, me.do("POST", late+"/cancel", nil).status)
	require.Equal(t, 3, one[int](w, `SELECT count(*) FROM operation_results`))
	require.NoError(t, a.ForgetOperations(t.Context()))
	require.Zero(t, one[int](w, `SELECT count(*) FROM operation_results`))
	me.refused(http.StatusNotFound, "not-found", me.do("GET", old, nil))
	for _, path := range []string{late, open} {
		require.Equal(t, http.StatusOK, me.do("GET", path, nil).status)
	}
}

func TestAnOperationThatDoesNotComeToItsEndWithinADayFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(3)
	me := w.as(7, identity.User)
	path := me.begins("disable", nil)
	w.exec(`UPDATE operations SET created_at = created_at - interval '25 hours'`)
	w.finish(w.worker())
	me.stands(path, map[string]any{"state": "failed", "changed": 0, "error": "it has not come to its end within a day"})
}

// What is taken away here is gone with the next batch, also from whom an issuer has signed in: it has not said it.
func TestAGroupThatIsTakenAwayIsNotKeptForWhomAnIssuerHasSignedIn(t *testing.T) {
	t.Parallel()
	w, p := believing(t)
	a := w.worker()
	w.link(7, p.server.URL, "alice")
	w.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id) SELECT 'x', 'web', 8, 'group', 'g' FROM generate_series(1, 120)`)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true)`)
	me := caller{w, p.gives("alice", nil)}
	path := me.begins("delete", map[string]any{"scope": "group", "scope_id": "g"})
	require.True(t, w.batch(a))
	w.exec(`DELETE FROM group_members`)
	left := one[int](w, `SELECT count(*) FROM connectors`)
	require.NotZero(t, left)
	w.finish(a)
	require.Equal(t, left, one[int](w, `SELECT count(*) FROM connectors`))
	me.stands(path, map[string]any{"state": "completed", "skipped": left})
}

func TestWhatIsDeletedIsWhatWasPreviewedAndNotAsManyOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(2)
	me := w.as(7, identity.User)
	confirm := me.previews("delete", nil)["confirm"]
	require.Equal(t, http.StatusAccepted, me.asks("delete", nil, confirm).status)
	w.finish(w.worker())
	w.connectors(2)
	me.refused(http.StatusConflict, "conflict", me.asks("delete", nil, confirm))
}

func TestAConnectorThatEndsEachTransactionStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	first := w.connectors(60)
	w.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'other', 'web', 8 FROM generate_series(1, 10)`)
	w.exec(fmt.Sprintf(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = %d THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$`, first+3))
	w.exec(`CREATE TRIGGER die BEFORE UPDATE OF status ON connectors FOR EACH ROW EXECUTE FUNCTION die()`)
	mine, theirs := w.as(7, identity.User).begins("disable", nil), w.as(8, identity.User).begins("disable", nil)
	_, err := a.WorkBatch(t.Context())
	require.Error(t, err)
	worked, err := a.WorkBatch(t.Context())
	require.NoError(t, err)
	require.True(t, worked)
	w.as(8, identity.User).stands(theirs, map[string]any{"state": "completed", "changed": 10})
	for range 100 {
		if w.hurry(); one[int](w, `SELECT count(*) FROM operations WHERE ended_at IS NULL`) == 0 {
			break
		}
		_, _ = a.WorkBatch(t.Context())
	}
	w.as(7, identity.User).stands(mine, map[string]any{"state": "completed", "changed": 59, "failed": 1})
	require.Equal(t, first+3, one[int32](w, `SELECT connector_id FROM operation_results`))
}

func TestSyncsThatWaitKeepNothingElseWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.connectors(120)
	me := w.as(7, identity.User)
	me.begins("sync", nil)
	me.begins("sync", nil)
	for range 8 {
		w.batch(a)
	}
	path := me.begins("disable", nil)
	for range 20 {
		w.batch(a)
	}
	me.stands(path, map[string]any{"state": "completed", "changed": 120})
}

// What is enabled is due at once, as what is triggered is. What a cap keeps is no reason to wait for long.
func TestEnablingManyLeavesOthersTheirTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.connectors(400)
	w.exec(`UPDATE connectors SET refresh_freq_minutes = 60`)
	movestest.Force(w, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp() - interval '3 days' WHERE id % 2 = 0`)
	w.exec(`SELECT moves.disable(id, 'x') FROM connectors`)
	w.as(7, identity.User).begins("enable", nil)
	const due = `SELECT count(*) FROM connectors WHERE due_at <= clock_timestamp()`
	for range 10 {
		w.batch(a)
		w.exec(`UPDATE operations SET batch_at = clock_timestamp() + interval '1 hour'`)
	}
	require.Equal(t, 100, one[int](w, due))
	w.exec(`UPDATE operations SET batch_at = clock_timestamp() - interval '6 seconds'`)
	w.batch(a)
	require.Equal(t, 150, one[int](w, due))
}

// What was claimed and no worker takes is one type's; what else was to be enabled is not to fail a day later for it.
func TestAnEnableDoesNotWaitForAWorkerThatIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.connectors(250)
	w.exec(`SELECT moves.disable(id, 'x') FROM connectors`)
	path := w.as(7, identity.User).begins("enable", nil)
	for range 20 {
		w.batch(a)
		movestest.Force(w, w.conn, `UPDATE connectors SET status = 'PENDING', run_id = gen_random_uuid(), next_sync_at = NULL, due_reason = NULL WHERE status = 'ACTIVE'`)
		w.exec(`UPDATE operations SET batch_at = batch_at - interval '1 hour'`)
	}
	w.as(7, identity.User).stands(path, map[string]any{"state": "completed", "changed": 250})
}

func TestABatchHoldsNoOperationButItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(3)
	me := w.as(7, identity.User)
	for range 5 { // two are at work, and the others wait for them
		me.begins("disable", nil)
	}
	w.exec(`UPDATE operations SET state = 'running', next_at = clock_timestamp() WHERE id IN (SELECT id FROM operations ORDER BY id LIMIT 2)`)
	w.exec(`UPDATE operations SET next_at = clock_timestamp() - interval '1 minute' WHERE state = 'waiting'`)
	other, err := pgx.Connect(t.Context(), w.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close(t.Context()) })
	for range 5 {
		tx, err := other.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT FROM api.take_batch()`)
		require.NoError(t, err)
		require.GreaterOrEqual(t, one[int](w, `SELECT count(*) FROM (SELECT FROM operations FOR UPDATE SKIP LOCKED) free`), 4)
		require.NoError(t, tx.Commit(t.Context()))
	}
}
