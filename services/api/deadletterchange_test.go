//go:build !race

package api_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestAReplayTriggersTheConnectorForgetsTheTokenAndRemovesTheLetter(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, config_version) VALUES ($1, 'a', 'stored', 'v1', 1), ($1, 'other', 'stored', 'v1', 1)`, id)
	b.letter(topology.DocumentSubject, partOf(id, "a"))
	r := me.do("POST", "/deadletters/1/replay", nil, "If-Match", "*", "Audit-Note", "they have mended it")
	require.Equal(t, 202, r.status, r.text)
	require.InDelta(t, 1, r.body["id"], 0)
	require.InDelta(t, id, r.body["connector_id"], 0)
	require.NotEmpty(t, r.body["trigger_requested_at"])
	require.NotZero(t, b.asked(id))
	require.Equal(t, "a=,other=v1", one[string](b.world, `SELECT string_agg(source_id || '=' || version_token, ',' ORDER BY source_id) FROM documents`))
	me.refused(404, "not-found", me.do("GET", "/deadletters/1", nil))
	documents, err := b.js.Stream(t.Context(), topology.DocumentStream)
	require.NoError(t, err)
	require.Zero(t, documents.CachedInfo().State.LastSeq, "the stale message is never published again")
	require.Equal(t, "1 1 they have mended it "+fmt.Sprint(id)+` {"subject": "document.process", "source_ids": ["a"]}`,
		one[string](b.world, `SELECT concat_ws(' ', user_id, object_id, note, connector_id, before) FROM audit WHERE action = 'deadletters.replay'`))
	require.Equal(t, int64(1), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'connectors.sync'`))
	require.Contains(t, fmt.Sprint(me.get("/audit")["entries"]), "action:deadletters.replay")
}

// A name of so many bytes is no document's; of millions the audit would take seconds to find secrets.
func TestAReplayWritesNoNameIntoTheAuditThatNoDocumentHas(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.letter(topology.DocumentSubject, partOf(id, strings.Repeat("//a@ ", 180_000)))
	require.Equal(t, 202, me.do("POST", "/deadletters/1/replay", nil, "If-Match", "*").status)
	require.Equal(t, `{"subject": "document.process", "source_ids": []}`, one[string](b.world, `SELECT before::text FROM audit WHERE action = 'deadletters.replay'`))
}

func TestATriggerWhoseRunHadParametersIsNotReplayedWithoutThem(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(1, identity.Superadmin)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	id := one[int32](b.world, `INSERT INTO connectors (name, type, user_id, config) VALUES ('j', 'word_count', 7, '{"target": "everything"}') RETURNING id`)
	b.exec(`SELECT moves.trigger_sync($1, false, '{"target": "one"}')`, id)
	run := movestest.ClaimAsked(b.world, b.conn, id)
	b.letter("connector.sync.word_count", &internalpb.ConnectorSyncRequest{ConnectorId: id, ChunkingSession: run.String()})
	b.letter("connector.sync.word_count", "\xff", topology.HeaderSession, run.String())
	b.exec(`SELECT moves.cancel($1)`, run)
	for n := range 2 {
		r := me.do("POST", fmt.Sprintf("/deadletters/%d/replay", n+1), nil, "If-Match", "*")
		me.refused(409, "conflict", r)
		require.Contains(t, r.text, "GET /runs/"+run.String())
		require.Equal(t, 200, me.do("GET", fmt.Sprintf("/deadletters/%d", n+1), nil).status)
	}
	require.Zero(t, b.asked(id))
}

func TestAReplayThatCannotBeSaysWhyAndKeepsTheLetter(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, disabled, deleted := b.as(1, identity.Superadmin), b.connector(7, "user"), b.connector(7, "user")
	b.exec(`SELECT moves.disable($1, 'x')`, disabled)
	b.exec(`DELETE FROM connectors WHERE id = $1`, deleted)
	b.letter(topology.DocumentSubject, partOf(disabled, "a"))
	b.letter(topology.DocumentSubject, partOf(deleted, "a"))
	b.letter(topology.DocumentSubject, "\xff", topology.HeaderSession, uuid.NewString())
	for sequence, says := range map[int]string{1: "is disabled", 2: "was deleted", 3: "names no connector"} {
		r := me.do("POST", fmt.Sprintf("/deadletters/%d/replay", sequence), nil, "If-Match", "*")
		me.refused(409, "conflict", r)
		require.Contains(t, r.text, says)
	}
	ids, _ := me.letterIDs("")
	require.Equal(t, []int{1, 2, 3}, ids)
	require.Zero(t, one[int64](b.world, `SELECT count(*) FROM audit WHERE action LIKE 'deadletters.%'`))
	b.exec(`SELECT moves.enable($1)`, disabled)
	require.Equal(t, 202, me.do("POST", "/deadletters/1/replay", nil, "If-Match", "*").status)
}

// The process, or the broker, may end between the commit and the removal.
func TestAReplayWhoseLetterIsNotRemovedIsAskedOnceWithItsKeyAndHarmlessWithout(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t).URL()
	js := testkit.JetStream(t, url)
	require.NoError(t, streams.EnsureStreams(t.Context(), js))
	stream, err := js.Stream(t.Context(), topology.DeadLetterStream)
	require.NoError(t, err)
	kept := stream.CachedInfo().Config
	require.NoError(t, js.DeleteStream(t.Context(), topology.DeadLetterStream))
	kept.DenyDelete = true // what is refused stands for what is not answered
	_, err = js.CreateStream(t.Context(), kept)
	require.NoError(t, err)
	b := broadcast{newWorld(t, func(c *api.Config) { c.NATSURL = url }), js}
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.letter(topology.DocumentSubject, partOf(id, "a"))

	replay := func(headers ...string) {
		t.Helper()
		r := me.do("POST", "/deadletters/1/replay", nil, append([]string{"If-Match", "*"}, headers...)...)
		me.refused(503, "unavailable", r)
		require.Contains(t, r.text, "harmless")
		require.NotEmpty(t, r.header.Get("Retry-After"))
	}
	replay("Idempotency-Key", "once")
	first := b.asked(id)
	require.NotZero(t, first)
	replay("Idempotency-Key", "once")
	require.Equal(t, first, b.asked(id), "it is not asked again")
	replay()
	require.Greater(t, b.asked(id), first)
	me.refused(503, "unavailable", me.do("DELETE", "/deadletters/1", nil, "If-Match", "*"))
	require.Equal(t, int64(1), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.drop'`), "nothing is removed without an entry")
	me.get("/deadletters/1")
}

func TestARepeatedReplayIsAnsweredAsTheFirstAndRemovesNoOtherLetter(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.letter(topology.DocumentSubject, partOf(id, "a"))
	first := me.do("POST", "/deadletters/1/replay", nil, "If-Match", "*", "Idempotency-Key", "k")
	require.Equal(t, 202, first.status, first.text)
	require.Equal(t, first.text, me.do("POST", "/deadletters/1/replay", nil, "If-Match", "*", "Idempotency-Key", "k").text)
	require.NoError(t, b.js.DeleteStream(t.Context(), topology.DeadLetterStream)) // one that is made anew gives the number to another
	require.NoError(t, streams.EnsureStreams(t.Context(), b.js))
	b.letter(topology.DocumentSubject, partOf(id, "another"))
	require.Equal(t, first.text, me.do("POST", "/deadletters/1/replay", nil, "If-Match", "*", "Idempotency-Key", "k").text)
	require.Equal(t, "another", me.get("/deadletters/1")["source_id"])
}

func TestADroppedLetterIsGoneAndItsConnectorIsNotTriggered(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.letter(topology.DocumentSubject, partOf(id, "https://ann:hunter2@example.org/a"))
	b.letter("somebody.elses", "hello")
	for sequence := 1; sequence <= 2; sequence++ {
		require.Equal(t, 204, me.do("DELETE", fmt.Sprintf("/deadletters/%d", sequence), nil, "If-Match", "*").status)
	}
	require.Zero(t, b.deadLetters().CachedInfo().State.Msgs)
	require.Zero(t, b.asked(id))
	entries := one[string](b.world, `SELECT string_agg(concat_ws(' ', object_id, user_id, connector_id, before), '; ' ORDER BY id) FROM audit WHERE action = 'deadletters.drop'`)
	require.Contains(t, entries, fmt.Sprintf("1 1 %d ", id))
	require.Contains(t, entries, "; 2 1 {")
	require.NotContains(t, entries, "hunter2")
}

// Everybody with a password of NATS's may write a dead letter.
func TestAHostileLetterIsNeverADefectOfOurs(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	within := func(field protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
	}
	var deep []byte
	for range 9_000 { // a list in a list
		deep = within(1, within(6, deep))
	}
	deep = within(6, within(1, append(within(1, []byte("key")), within(2, within(6, deep))...)))
	odd := &internalpb.ConnectorSyncRequest{ConnectorId: id, Config: &structpb.Struct{Fields: map[string]*structpb.Value{
		"nan": structpb.NewNumberValue(math.NaN()), "none": {},
	}}}
	for _, payload := range []any{"", "\xff", strings.Repeat("\x00", 1000), strings.Repeat("\x0a\x00", 400_000), strings.Repeat("x", 1<<20-4096), string(deep), odd, partOf(id, "a\x00b"), partOf(id, strings.Repeat("ä", 200_000)),
		partOf(-1, "\x1b[31m\u202e"), partOf(math.MaxInt32, "a")} {
		for _, subject := range []string{topology.DocumentSubject, "connector.sync.web", "connector.sync." + strings.Repeat("x.", 1000) + "y", "ünd.\xff"} {
			b.letter(subject, payload)
		}
	}
	large := partOf(id, "large")
	large.GetPart().Chunks[0].Text = strings.Repeat("password=hunter2 ", 55_000)
	b.letter(topology.DocumentSubject, large)
	last := b.deadLetters().CachedInfo().State.LastSeq
	for _, name := range []string{topology.HeaderSession, topology.HeaderReason, topology.HeaderTries, topology.HeaderDeliveries, topology.HeaderSequence, topology.HeaderNumber, topology.HeaderCutFrom, topology.HeaderFirstAt} {
		for _, value := range []string{"", "-1", "NaN", "9223372036854775807", "99999999999999999999", "\xff\x00", "9999-12-31T23:59:59-14:00", "0000-01-01T00:00:00+14:00", uuid.Nil.String(), strings.Repeat("9", 60_000)} {
			b.letter(topology.DocumentSubject, partOf(id, "a"), name, value)
		}
	}
	ids, _ := me.letterIDs("page_size=500")
	shown := me.get(fmt.Sprintf("/deadletters/%d", last))
	require.Contains(t, shown["problem"], "larger than is shown")
	require.Equal(t, "large", shown["source_id"])
	require.Nil(t, shown["message"])
	require.Len(t, ids, int(b.deadLetters().CachedInfo().State.Msgs))
	for _, letter := range ids {
		path := fmt.Sprintf("/deadletters/%d", letter)
		r := me.do("GET", path, nil)
		require.Equal(t, 200, r.status, r.text)
		require.NotContains(t, r.text, "hunter2")
		require.Less(t, len(r.text), 2<<20)
		r = me.do("POST", path+"/replay", nil, "If-Match", "*")
		require.Less(t, r.status, 500, r.text)
		if r.status != 202 {
			require.Equal(t, 204, me.do("DELETE", path, nil, "If-Match", "*").status)
		}
	}
	require.Zero(t, b.deadLetters().CachedInfo().State.Msgs)
}
