//go:build !race

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
)

func TestAConnectorThatIsHeldKeepsNoOtherFromBeingReplayed(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, before, held, refused, other := b.as(1, identity.Superadmin), b.connector(8, "user"), b.connector(7, "user"), b.connector(7, "user"), b.connector(8, "user")
	for _, id := range []int32{before, held, refused, refused} {
		b.letter(topology.DocumentSubject, partOf(id, "a"), topology.HeaderReason, "r")
	}
	b.manyLetters(2_100, other, alike)
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it is ill'; END $$`)
	b.exec(fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON connectors FOR EACH ROW WHEN (OLD.id = %d) EXECUTE FUNCTION refuse()`, refused))
	conn, err := pgx.Connect(t.Context(), b.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, held)
	require.NoError(t, err)

	left, done, requests := me.many("replay", "r")
	require.Equal(t, 2_101, done)
	require.Greater(t, requests, 1)
	require.NotZero(t, b.asked(before))
	require.NotZero(t, b.asked(other))
	require.Zero(t, b.asked(refused))
	require.Len(t, left, 2)
	for i, want := range []struct {
		letters, example int
		why, fix         string
	}{
		{1, 2, fmt.Sprintf("Somebody else holds connector %d of the dead letter, or one of its documents.", held), "Send the request again."},
		{2, 3, fmt.Sprintf("PostgreSQL refuses it for connector %d of the dead letter: PostgreSQL refuses a value.", refused), "Mend the connector, then send the request again."},
	} {
		require.Equal(t, map[string]any{"letters": float64(want.letters), "example": float64(want.example), "why": want.why, "fix": want.fix}, left[i])
	}

	require.NoError(t, tx.Rollback(t.Context()))
	me.many("replay", "r")
	require.NotZero(t, b.asked(held))
	ids, _ := me.letterIDs("")
	require.Equal(t, []int{3, 4}, ids)
}

func TestLettersOfAStreamThatWasMadeAnewAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	const letters = 2_500
	b.manyLetters(letters, id, alike)
	r := me.do("POST", "/deadletters/drop", map[string]any{"reason": "r"})
	require.Equal(t, 200, r.status, r.text)
	token := r.body["next_page_token"]
	require.NotEmpty(t, token)
	require.NoError(t, b.js.DeleteStream(t.Context(), topology.DeadLetterStream))
	me.refused(412, "precondition-failed", me.do("POST", "/deadletters/drop", map[string]any{"reason": "r", "page_token": token}))
	require.NoError(t, streams.EnsureStreams(t.Context(), b.js))
	b.manyLetters(letters, id, alike)
	me.refused(412, "precondition-failed", me.do("POST", "/deadletters/drop", map[string]any{"reason": "r", "page_token": token}))
	require.Equal(t, uint64(letters), b.deadLetters().CachedInfo().State.Msgs)
}

func TestManyLettersOfAConnectorAreReplayedByOneSyncOfARequest(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(450, id, alike)
	_, _, requests := me.many("replay", "r") // one, but on a slow machine
	syncs := one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'connectors.sync'`)
	require.Positive(t, syncs)
	require.LessOrEqual(t, syncs, int64(requests))
	require.Equal(t, syncs, one[int64](b.world, `SELECT count(DISTINCT request_id) FROM audit WHERE action = 'connectors.sync'`))
	require.Equal(t, int64(450), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.replay' AND before -> 'source_ids' ->> 0 = 'a'`))
}

func TestWhatCameOfEachLetterIsSaidWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, there, off := b.as(1, identity.Superadmin), b.connector(7, "user"), b.connector(7, "user")
	b.exec(`SELECT moves.disable($1, 'x')`, off)
	for _, id := range []int32{there, off, 999, there} {
		b.letter(topology.DocumentSubject, partOf(id, "a"), topology.HeaderReason, "r")
	}
	b.letter(topology.DocumentSubject, "\xff", topology.HeaderReason, "r")
	r := me.do("POST", "/deadletters/replay", map[string]any{"subject": ">", "each": true})
	require.Equal(t, 200, r.status, r.text)
	said := map[string]any{}
	for _, l := range r.body["letters"].([]any) {
		l := l.(map[string]any)
		require.Equal(t, l["why"] == nil, l["trigger_requested_at"] != nil)
		said[fmt.Sprint(l["id"])] = l["why"]
	}
	require.Equal(t, map[string]any{"1": nil, "2": "disabled", "3": "gone", "4": nil, "5": "nobodys"}, said)
	r = me.do("POST", "/deadletters/drop", map[string]any{"subject": ">"})
	require.Equal(t, 3.0, r.body["done"], r.text)
	require.NotContains(t, r.body, "letters")
}

func TestEachLetterThatIsDroppedIsInTheAuditWithItsDocument(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(250, id, alike)
	me.many("drop", "r")
	require.Equal(t, int64(250), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.drop' AND before -> 'source_ids' ->> 0 = 'a'`))
}

func TestManyLettersAreReplayedByOneRequestAtATime(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(1, id, alike)
	tx, err := b.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtext('echomind.deadletters'))`)
	require.NoError(t, err)
	for _, path := range []string{"/deadletters/replay", "/deadletters/drop"} {
		r := me.do("POST", path, map[string]any{"reason": "r"})
		me.refused(409, "conflict", r)
		require.NotEmpty(t, r.header.Get("Retry-After"))
	}
	r := me.do("DELETE", "/deadletters/1", nil, "If-Match", "*")
	me.refused(409, "conflict", r)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.NoError(t, tx.Rollback(t.Context()))
	r = me.do("POST", "/deadletters/drop", map[string]any{"reason": "r"})
	require.InDelta(t, 1, r.body["done"], 0, r.text)
}

func TestWhatCameOfEachLetterShowsNoSecretOfItsSource(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(1, identity.Superadmin)
	b.letter(topology.DocumentSubject, partOf(999, "https://me:hunter2@site.example/a?token=hunter3"), topology.HeaderReason, "r")
	b.letter(topology.DocumentSubject, "\xff", topology.HeaderReason, "r", topology.HeaderSession, "Bearer hunter4hunter4")
	r := me.do("POST", "/deadletters/replay", map[string]any{"subject": ">", "each": true})
	require.Equal(t, 200, r.status, r.text)
	require.Len(t, r.body["letters"], 2)
	require.NotContains(t, r.text, "hunter")
}

func TestWhatCameOfEachLetterFitsIntoAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(1, identity.Superadmin)
	const letters = 150
	for i := range letters {
		b.letter(topology.DocumentSubject, partOf(999, fmt.Sprint(i, strings.Repeat("\x01", 20_000))), topology.HeaderReason, "r")
	}
	said := 0
	for token := any(""); token != nil; {
		r := me.do("POST", "/deadletters/replay", map[string]any{"subject": ">", "each": true, "page_token": token})
		require.Equal(t, 200, r.status)
		require.Less(t, len(r.text), 8<<20, "sdk/client reads no longer answer")
		said, token = said+len(r.body["letters"].([]any)), r.body["next_page_token"]
	}
	require.Equal(t, letters, said)
}

func TestWhatCameOfLettersIsSaidThoughARequestFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, there, ill := b.as(1, identity.Superadmin), b.connector(7, "user"), b.connector(7, "user")
	for _, id := range []int32{there, ill, there} {
		b.letter(topology.DocumentSubject, partOf(id, "a"), topology.HeaderReason, "r")
	}
	b.exec(`CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid(), 1000); RETURN NEW; END $$`)
	b.exec(fmt.Sprintf(`CREATE TRIGGER vanish BEFORE UPDATE ON connectors FOR EACH ROW WHEN (OLD.id = %d) EXECUTE FUNCTION vanish()`, ill))
	asks := map[string]any{"reason": "r", "each": true}
	r := me.do("POST", "/deadletters/replay", asks)
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, []float64{1, 3}, told(r))
	require.InDelta(t, 2, r.body["done"], 0)
	require.InDelta(t, 2, r.body["looked"], 0)
	asks["page_token"] = r.body["next_page_token"]
	me.refused(503, "unavailable", me.do("POST", "/deadletters/replay", asks))
	b.exec(`DROP TRIGGER vanish ON connectors`)
	r = me.do("POST", "/deadletters/replay", asks)
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, []float64{2}, told(r))
	require.InDelta(t, 1, r.body["looked"], 0)
	require.Nil(t, r.body["next_page_token"])
}

// told are the ids of the letters of which an answer says what came.
func told(r reply) (ids []float64) {
	for _, l := range r.body["letters"].([]any) {
		ids = append(ids, l.(map[string]any)["id"].(float64))
	}
	return ids
}

func TestEachLetterIsCountedOnceThoughTheTimeOfARequestIsOver(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(1, identity.Superadmin)
	var held []int32
	for range 8 {
		held = append(held, b.connector(7, "user"))
	}
	for _, id := range append(held, held...) {
		b.letter(topology.DocumentSubject, partOf(id, "a"), topology.HeaderReason, "r")
	}
	conn, err := pgx.Connect(t.Context(), b.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), `BEGIN; SELECT FROM connectors FOR UPDATE`) // of each a request waits for half a second
	require.NoError(t, err)
	var looked, left, letters, requests int
	for token := any(""); token != nil; requests++ {
		r := me.do("POST", "/deadletters/replay", map[string]any{"reason": "r", "each": true, "page_token": token})
		require.Equal(t, 200, r.status, r.text)
		looked, letters, token = looked+int(r.body["looked"].(float64)), letters+len(told(r)), r.body["next_page_token"]
		for _, l := range r.body["left"].([]any) {
			left += int(l.(map[string]any)["letters"].(float64))
		}
	}
	require.Greater(t, requests, 1)
	require.Equal(t, []int{16, 16, 16}, []int{looked, left, letters})
}
