package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
)

// beginsLetters begins an operation on dead letters, and returns where it is.
func (c caller) beginsLetters(action string, filter map[string]any, headers ...string) string {
	c.Helper()
	body := map[string]any{"action": action}
	for name, value := range filter {
		body[name] = value
	}
	r := c.do("POST", "/deadletters/operations", body, headers...)
	require.Equal(c, http.StatusAccepted, r.status, r.text)
	path := fmt.Sprintf("/operations/%v", r.body["id"])
	require.Equal(c, "/api/v1"+path, r.header.Get("Location"))
	return path
}

// turn has the service do a turn of an operation on dead letters, and says whether there was one.
func (b broadcast) turn() bool {
	b.Helper()
	b.hurry()
	worked, err := b.api.WorkLetters(b.Context())
	require.NoError(b, err)
	return worked
}

// finishLetters has the service work until no operation is open.
func (b broadcast) finishLetters() (turns int) {
	b.Helper()
	for range 100 {
		if one[int](b.world, `SELECT count(*) FROM operations WHERE ended_at IS NULL`) == 0 {
			return turns
		}
		b.turn()
		turns++
	}
	require.Fail(b, "operations do not end")
	return turns
}

func TestAnOperationReplaysAllLettersOfItsFilterThatThereWereAndSaysWhoseStay(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, on, off := b.as(1, identity.Superadmin), b.connector(7, "user"), b.connector(7, "user")
	me.refused(409, "conflict", me.do("POST", "/deadletters/operations", map[string]any{"action": "drop", "subject": ">"}))
	b.exec(`SELECT moves.disable($1)`, off)
	b.letter(topology.DocumentSubject, partOf(off, "a"), topology.HeaderReason, "r")
	b.letter(topology.DocumentSubject, partOf(on, "a"), topology.HeaderReason, "another")
	b.manyLetters(2_100, on, alike)
	path := me.beginsLetters("replay", map[string]any{"reason": "r"}, "Audit-Note", "the outage")
	b.letter(topology.DocumentSubject, partOf(on, "a"), topology.HeaderReason, "r") // it is not one of those
	me.stands(path, map[string]any{"state": "waiting", "matched": 2_102, "done": 0})
	require.Equal(t, map[string]any{"reason": "r"}, me.get(path)["letters"])
	worked, err := b.worker().WorkBatch(t.Context())
	require.NoError(t, err)
	require.False(t, worked, "it is none of connectors")

	require.Greater(t, b.finishLetters(), 1)
	got := me.stands(path, map[string]any{"state": "completed", "changed": 2_100, "failed": 1, "error": nil})
	require.LessOrEqual(t, got["done"], got["matched"])
	results := me.get(path + "/results")["results"].([]any)
	require.Len(t, results, 1)
	require.EqualValues(t, off, results[0].(map[string]any)["connector_id"])
	require.Equal(t, "The connector is disabled.", results[0].(map[string]any)["reason"])
	require.NotZero(t, b.asked(on))
	ids, _ := me.letterIDs("")
	require.Equal(t, []int{1, 2, 2_103}, ids)
	require.Equal(t, 2_100, one[int](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.replay' AND user_id = 1 AND request_id = 'operation/1' AND note = 'the outage'`))
	require.Equal(t, 1, one[int](b.world, `SELECT count(*) FROM audit WHERE action = 'operations.create' AND after ->> 'action' = 'replay'`))
}

func TestATurnWhoseProcessDiesBeforeItIsWrittenDownIsGoneOnWith(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(300, id, alike)
	path := me.beginsLetters("drop", map[string]any{"subject": ">"})
	b.exec(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$`)
	b.exec(`CREATE TRIGGER die BEFORE UPDATE OF changed ON operations FOR EACH ROW EXECUTE FUNCTION die()`)
	_, err := b.api.WorkLetters(t.Context())
	require.Error(t, err)
	b.exec(`DROP TRIGGER die ON operations`)
	me.stands(path, map[string]any{"state": "running", "done": 0})
	worked, err := b.api.WorkLetters(t.Context())
	require.NoError(t, err)
	require.False(t, worked, "its time is not over")
	b.letter(topology.DocumentSubject, partOf(id, "a"))
	b.finishLetters()
	me.stands(path, map[string]any{"state": "completed"})
	ids, _ := me.letterIDs("")
	require.Equal(t, []int{301}, ids)
	require.Equal(t, 300, one[int](b.world, `SELECT count(DISTINCT object_id) FROM audit WHERE action = 'deadletters.drop'`))
	require.False(t, one[bool](b.world, `SELECT api.note_letters(1, 1, 'x', 5, 0, 0, '{}', '{}', '1 s', NULL)`), "its turn is over")
}

func TestAnOperationOnLettersThatIsCancelledDoesNoMore(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(2_100, id, alike)
	path := me.beginsLetters("drop", map[string]any{"connector_id": id})
	require.True(t, b.turn())
	require.Equal(t, 200, me.do("POST", path+"/cancel", nil).status)
	require.False(t, b.turn())
	got := me.stands(path, map[string]any{"state": "cancelled"})
	left := one[int](b.world, `SELECT 2100 - count(*) FROM audit WHERE action = 'deadletters.drop'`)
	require.Positive(t, left)
	require.EqualValues(t, 2_100-left, got["changed"])
}

func TestAnOperationOnLettersEndsWhereItsUserMayNotOrTheLettersAreOthers(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(5, id, alike)
	busy := me.beginsLetters("drop", map[string]any{"reason": "r"})
	tx, err := b.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtext('echomind.deadletters'))`)
	require.NoError(t, err)
	worked, err := b.api.WorkLetters(t.Context()) // a request is at the letters
	require.NoError(t, err)
	require.False(t, worked)
	require.NoError(t, tx.Rollback(t.Context()))
	me.stands(busy, map[string]any{"state": "running", "done": 0})
	require.NoError(t, b.js.DeleteStream(t.Context(), topology.DeadLetterStream))
	require.NoError(t, streams.EnsureStreams(t.Context(), b.js))
	b.manyLetters(5, id, alike)
	b.finishLetters()
	require.Contains(t, me.stands(busy, map[string]any{"state": "failed", "done": 0})["error"], "was made anew")

	me.beginsLetters("drop", map[string]any{"reason": "r"})
	b.exec(`INSERT INTO users VALUES (1, 'admin')`)
	b.finishLetters()
	require.Equal(t, "dead letters are for superadmins, and user 1 is none any more", one[string](b.world, `SELECT error FROM operations ORDER BY id DESC LIMIT 1`))
	ids, _ := b.as(2, identity.Superadmin).letterIDs("")
	require.Len(t, ids, 5)
}

func TestAnOperationOnLettersWantsTheScopeOfItsActionAndAFilter(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	b.manyLetters(1, b.connector(7, "user"), alike)
	me := b.as(1, identity.Superadmin)
	b.exec(`UPDATE access_tokens SET scopes = '{read,operate}'`)
	me.refused(403, "forbidden", me.do("POST", "/deadletters/operations", map[string]any{"action": "drop", "subject": ">"}))
	me.refused(422, "invalid", me.do("POST", "/deadletters/operations", map[string]any{"action": "replay"}))
	me.refused(422, "invalid", me.do("POST", "/deadletters/operations", map[string]any{"action": "sync", "subject": ">"}))
	same := me.beginsLetters("replay", map[string]any{"subject": ">"}, "Idempotency-Key", "k")
	require.Equal(t, same, me.beginsLetters("replay", map[string]any{"subject": ">"}, "Idempotency-Key", "k"))
}
