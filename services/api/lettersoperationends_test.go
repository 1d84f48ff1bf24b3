package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
)

func TestLettersThatNameNoConnectorAreAmongTheResultsOfAnOperation(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(1, identity.Superadmin)
	b.letter("connector.sync.web", nil, topology.HeaderReason, "r")
	path := me.beginsLetters("replay", map[string]any{"reason": "r"})
	b.finishLetters()
	results := me.get(path + "/results")["results"].([]any)
	require.Len(t, results, 1)
	require.EqualValues(t, 0, results[0].(map[string]any)["connector_id"])
}

func TestARepeatOfABeginningIsAnsweredAfterTheLettersAreGone(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(2, id, alike)
	first := me.beginsLetters("drop", map[string]any{"subject": ">"}, "Idempotency-Key", "k")
	b.finishLetters()
	require.Equal(t, first, me.beginsLetters("drop", map[string]any{"subject": ">"}, "Idempotency-Key", "k"))
	me.refused(409, "conflict", me.do("POST", "/deadletters/operations", map[string]any{"action": "drop", "subject": ">"}, "Idempotency-Key", "other"))
}

func TestOneOperationOnLettersBeginsWhereTwoReplicasLookAtOnce(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(1, id, alike)
	me.beginsLetters("drop", map[string]any{"subject": ">"})
	me.beginsLetters("replay", map[string]any{"subject": ">"})
	other, err := pgx.Connect(t.Context(), b.url)
	require.NoError(t, err)
	defer func() { _ = other.Close(context.WithoutCancel(t.Context())) }()
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT api.take_letters('30 s')`)
	require.NoError(t, err)
	b.exec(`SELECT api.take_letters('30 s')`)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 1, one[int](b.world, `SELECT count(*) FROM operations WHERE state = 'running'`))
}

func TestTheDayOfAnOperationOnLettersBeginsWithItsFirstTurn(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(1, id, alike)
	path := me.beginsLetters("drop", map[string]any{"subject": ">"})
	b.exec(`UPDATE operations SET created_at = created_at - interval '25 hours'`)
	b.exec(`SELECT api.take_letters('0 s')`)
	me.stands(path, map[string]any{"state": "running"})
	b.exec(`UPDATE operations SET began_at = began_at - interval '25 hours'`)
	b.exec(`SELECT api.take_letters('0 s')`)
	me.stands(path, map[string]any{"state": "failed", "error": "it has not come to its end within a day"})
}

func TestAServiceThatStopsInATurnWritesDownWhatItHasDone(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(300, id, alike)
	path := me.beginsLetters("drop", map[string]any{"subject": ">"})
	conn, err := pgx.Connect(t.Context(), b.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	b.exec(`CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NOTIFY dropped; RETURN NULL; END $$`)
	b.exec(`CREATE TRIGGER tell AFTER INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION tell()`)
	_, err = conn.Exec(t.Context(), `LISTEN dropped`)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		for range 2 { // the first portion is removed, and the second one is being written down
			_, _ = conn.WaitForNotification(ctx)
		}
	}()
	_, err = b.api.WorkLetters(ctx)
	require.NoError(t, err)
	require.Positive(t, one[int](b.world, `SELECT changed FROM operations`))
	b.finishLetters()
	me.stands(path, map[string]any{"state": "completed", "changed": 300})
}

func TestAnOperationOnLettersEndsWithTheRightsOfWhoAsked(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"revoked": `UPDATE access_tokens SET revoked_at = clock_timestamp()`, "expired": `UPDATE access_tokens SET expires_at = clock_timestamp()`,
		"removed": `INSERT INTO removed_users VALUES (1)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroadcast(t)
			me, id := b.as(1, identity.Superadmin, identity.Read, identity.Write), b.connector(7, "user")
			b.manyLetters(1, id, alike)
			me.refused(http.StatusForbidden, "forbidden", me.do("POST", "/deadletters/operations", map[string]any{"action": "replay", "subject": ">"}))
			me.beginsLetters("drop", map[string]any{"subject": ">"})
			b.exec(sql)
			b.finishLetters()
			assert.Equal(t, "failed", one[string](b.world, `SELECT state FROM operations`))
			assert.Equal(t, uint64(1), b.deadLetters().CachedInfo().State.Msgs)
		})
	}
}

func TestAPreviewRefusesACalendarThatAScheduleWithoutSlotsDoesNotAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', 7, 'user') RETURNING id`)
	me := w.as(7, identity.User)
	r := me.do("GET", fmt.Sprintf("/connectors/%d/schedule/preview?set=", id)+url.QueryEscape(`{"calendar":"none","refresh_freq_minutes":null}`), nil)
	me.refused(422, "invalid", r)
	require.Contains(t, r.text, "query.set.calendar")
}

func TestAnOperationOnLettersWhoseFilterCannotBeReadKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(1, id, alike)
	unread, other := me.beginsLetters("drop", map[string]any{"subject": ">"}), me.beginsLetters("replay", map[string]any{"subject": ">"})
	b.exec(`UPDATE operations SET filter = '{}' WHERE id = (SELECT min(id) FROM operations)`)
	b.finishLetters()
	require.Contains(t, me.stands(unread, map[string]any{"state": "failed", "done": 0})["error"], "filter")
	me.stands(other, map[string]any{"state": "completed", "changed": 1})
}
