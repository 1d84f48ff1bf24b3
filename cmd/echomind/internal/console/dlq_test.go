package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/testkit"
)

const session = "00000000-0000-0000-0000-00000000000a"

func (u terminal) jetstream() jetstream.JetStream {
	u.t.Helper()
	js := testkit.JetStream(u.t, u.lookup.NATSURL)
	return js
}

// letter puts a dead letter into the stream: a message, or bytes that are none. Headers are pairs of name and value.
func (u terminal) letter(js jetstream.JetStream, subject string, payload any, headers ...string) {
	u.t.Helper()
	msg := nats.NewMsg("dlq." + subject)
	switch p := payload.(type) {
	case proto.Message:
		data, err := proto.Marshal(p)
		require.NoError(u.t, err)
		msg.Data = data
	case string:
		msg.Data = []byte(p)
	}
	msg.Header.Set(topology.HeaderReason, "it always fails")
	for i := 0; i < len(headers); i += 2 {
		msg.Header.Set(headers[i], headers[i+1])
	}
	_, err := js.PublishMsg(context.Background(), msg)
	require.NoError(u.t, err)
}

func part(connector int32, no int64, sourceID string) *internalpb.DocumentProcessRequest {
	return &internalpb.DocumentProcessRequest{
		ConnectorId: connector, ChunkingSession: session, Number: no,
		Body: &internalpb.DocumentProcessRequest_Part{Part: &internalpb.DocumentPart{
			SourceId: sourceID, Title: "a title", VersionToken: "etag-1", FirstNo: no, Parts: 1,
			Chunks: []*internalpb.Chunk{{Text: "the text"}},
		}},
	}
}

func trigger(t *testing.T, connector int32, cfg map[string]any) *internalpb.ConnectorSyncRequest {
	t.Helper()
	config, err := structpb.NewStruct(cfg)
	require.NoError(t, err)
	state, err := structpb.NewStruct(map[string]any{"delta_token": "hunter2", "page": 3})
	require.NoError(t, err)
	return &internalpb.ConnectorSyncRequest{ConnectorId: connector, ChunkingSession: session, Config: config, State: state}
}

func (u terminal) ids(args ...string) (ids []int) {
	u.t.Helper()
	for _, letter := range u.array(append([]string{"dlq", "list"}, args...)...) {
		id, ok := letter["id"].(float64)
		require.True(u.t, ok)
		ids = append(ids, int(id))
	}
	return ids
}

func TestDeadLettersAreListedWithWhatTheirHeadersAndMessagesSay(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	require.Equal(t, "no dead letters\n", u.succeed("dlq", "list"))
	require.Empty(t, u.array("dlq", "list"))
	u.letter(js, topology.DocumentSubject, part(3, 7, "a/b.md\x1b[31m"), topology.HeaderTries, "5",
		topology.HeaderDeliveries, "6", topology.HeaderSequence, "41", topology.HeaderFirstAt, "2026-03-01T00:02:03.5Z")
	u.letter(js, "connector.sync.web", "\xff", topology.HeaderTries, "many", topology.HeaderSession, "no uuid")

	letters := u.array("dlq", "list")
	require.Len(t, letters, 2)
	require.NotEmpty(t, letters[0]["last_at"])
	delete(letters[0], "last_at")
	delete(letters[0], "size_bytes")
	require.Equal(t, map[string]any{
		"id": 1.0, "subject": "document.process", "reason": "it always fails", "tries": 5.0, "deliveries": 6.0,
		"original_sequence": 41.0, "session": session, "number": 7.0, "connector_id": 3.0, "source_id": "a/b.md\x1b[31m",
		"first_at": "2026-03-01T00:02:03.5Z", "cut_from_bytes": 0.0,
	}, letters[0])
	require.Nil(t, letters[1]["connector_id"])
	require.Nil(t, letters[1]["first_at"])

	lines := strings.Split(strings.TrimSpace(u.succeed("dlq", "list")), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t, `^1 +document.process +3 +a/b.md\[31m +5 +6 .*it always fails$`, lines[1])
	require.Regexp(t, `^2 +connector.sync.web +- +- +0 +0 +- .*it always fails$`, lines[2])
}

func TestDeadLettersAreFilteredAndPagedOver(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		VALUES ($1, 1, 1, 'file', 'new', now(), now(), now(), 1)`, session)
	for no := range int32(120) { // more than are read at once
		u.letter(js, topology.DocumentSubject, part(2+no%2, int64(no), "a"))
	}
	u.letter(js, topology.DocumentSubject, "\xff", topology.HeaderSession, session) // its run says whose it is
	u.letter(js, "connector.sync.web", trigger(t, 3, nil))
	u.letter(js, "connector.sync.file", trigger(t, 3, nil))

	require.Equal(t, []int{121}, u.ids("--connector", "1"))
	require.Len(t, u.ids("--connector", "3"), 62)
	require.Equal(t, []int{122, 123}, u.ids("--subject", "connector.sync.*"))
	require.Equal(t, []int{122, 123}, u.ids("--subject", "connector.>"))
	require.Equal(t, []int{122}, u.ids("--subject", "dlq.connector.sync.web", "--connector", "3"))
	require.Equal(t, []int{119, 120}, u.ids("--after", "118", "--limit", "2"))
	require.Empty(t, u.ids("--subject", "nothing.of.this"))
	shown := u.succeed("dlq", "list", "--limit", "2")
	require.Equal(t, 4, strings.Count(shown, "\n"))
	require.Contains(t, shown, "and more: echomind dlq list --after 2\n")
	require.NotContains(t, u.succeed("dlq", "list", "--after", "121"), "and more")
}

func TestThousandsOfDeadLettersLeaveNoConsumerBehind(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	data, err := proto.Marshal(part(3, 1, "a"))
	require.NoError(t, err)
	const many = 3000
	for range many {
		_, err := js.PublishAsync("dlq.document.process", data)
		require.NoError(t, err)
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(30 * time.Second):
		t.Fatal("the letters are not stored")
	}
	require.Len(t, u.ids("--limit", "10000"), many)
	require.Len(t, u.ids(), 100)
	require.InDelta(t, many, u.object("dlq", "drop", "--all", "--yes")["dropped"], 0)
	stream, err := js.Stream(context.Background(), topology.DeadLetterStream)
	require.NoError(t, err)
	require.Zero(t, stream.CachedInfo().State.Consumers)
	require.Zero(t, stream.CachedInfo().State.Msgs)
}

func TestADeadLetterIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.add("--name", "wiki", "--refresh", "manual")
	u.letter(js, "connector.sync.file", trigger(t, 1, map[string]any{
		"url": "https://ann:hunter2@example.org/?access_token=hunter2", "api_key": "hunter2", "keywords": []any{"zebra"},
	}))
	request := part(1, 2, "a.md")
	request.GetPart().Links = []string{"https://example.org/?sig=hunter2"}
	request.GetPart().Chunks = nil
	request.GetPart().Memo = []byte(`{"folders":["shelf"],"refresh_token":"hunter2"}`)
	for i := range 8 {
		request.GetPart().Chunks = append(request.GetPart().Chunks, &internalpb.Chunk{Text: fmt.Sprint(i, strings.Repeat(" x\x1b", 500))})
	}
	u.letter(js, topology.DocumentSubject, request, topology.HeaderTries, "5", topology.HeaderDeliveries, "6")
	completed := &internalpb.DocumentProcessRequest{ConnectorId: 1, ChunkingSession: session, Body: &internalpb.DocumentProcessRequest_Completed{
		Completed: &internalpb.SyncCompleted{Total: 3, NewState: trigger(t, 1, nil).State},
	}}
	u.letter(js, topology.DocumentSubject, completed)
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) VALUES (1, 'a.md', 'failed', 'given up: it always fails', 1)`)

	for id := 1; id <= 3; id++ {
		for _, shown := range []string{
			u.succeed("dlq", "show", strconv.Itoa(id)), u.succeed("dlq", "show", strconv.Itoa(id), "-o", "json"),
		} {
			require.NotContains(t, shown, "hunter2")
			require.NotContains(t, shown, "\x1b")
			require.Contains(t, shown, session)
		}
	}
	first := u.object("dlq", "show", "1")
	message, ok := first["message"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, map[string]any{
		"url": "https://ann:REDACTED@example.org/?access_token=REDACTED", "api_key": "REDACTED", "keywords": []any{"zebra"},
	}, message["config"])
	require.Equal(t, map[string]any{"delta_token": "REDACTED", "page": 3.0}, message["state"])
	require.Equal(t, map[string]any{"name": "wiki", "type": "file", "status": "ACTIVE"}, first["connector"])

	shown := u.succeed("dlq", "show", "2")
	require.Regexp(t, `connector +1 "wiki" \(file\), ACTIVE\n`, shown)
	require.Regexp(t, `document +a.md, failed since .*: given up: it always fails\n`, shown)
	require.Regexp(t, `tries +5, delivered 6 times\n`, shown)
	require.Contains(t, shown, `"version_token": "etag-1"`)
	require.Regexp(t, `"memo": {\s+"folders": \[\s+"shelf"\s+\],\s+"refresh_token": "REDACTED"`, shown)
	require.Contains(t, shown, `"… and 3 more"`)
	require.Less(t, len(shown), 4000, "people see the beginning of long texts")
	require.Contains(t, u.succeed("dlq", "show", "3"), `"delta_token": "REDACTED"`)
}

func TestAPayloadThatIsNoMessageIsShownByItsSizeAndItsBeginning(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.letter(js, topology.DocumentSubject, "\xff\x00\x1b[31m"+strings.Repeat("a", 5000), topology.HeaderCutFrom, "2000000")
	u.letter(js, "connector.sync.web", "\xff\xff"+strings.Repeat("-", 100)+"hunter2")
	u.letter(js, "somebody.elses", "hello")
	shown := u.succeed("dlq", "show", "1")
	require.Regexp(t, `size +4.9 KiB, cut from 1.9 MiB\n`, shown)
	require.Contains(t, shown, "not a DocumentProcessRequest: ")
	require.Contains(t, shown, `it begins with`+"\n"+`"\xff\x00\x1b[31m`+strings.Repeat("a", 57)+`"`+"\n")
	require.Regexp(t, `connector +- \(it names none`, shown)
	of := u.object("dlq", "show", "2")
	require.Nil(t, of["message"])
	require.Contains(t, of["problem"], "not a ConnectorSyncRequest")
	require.Equal(t, `"\xff\xff`+strings.Repeat("-", 14)+`"`, of["head"], "the rest may hold a configuration")
	require.Contains(t, u.succeed("dlq", "show", "3"), "nothing is known of what somebody.elses carries")
}

func TestReplayForgetsTheTokenTriggersTheConnectorAndRemovesTheLetter(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.add("--refresh", "manual")
	for _, status := range []string{"stored", "failed"} {
		u.exec(`INSERT INTO documents (connector_id, source_id, status, error, version_token, config_version) VALUES (1, $1, $2, $3, 'v1', 1)`,
			status, status, map[string]any{"stored": nil, "failed": "x"}[status])
		u.letter(js, topology.DocumentSubject, part(1, 1, status))
	}
	u.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, config_version) VALUES (1, 'other', 'stored', 'v1', 1),
		(2, 'stored', 'stored', 'v1', 1)`)
	u.letter(js, topology.DocumentSubject, part(1, 1, "whose row is gone"))
	require.Nil(t, u.object("connectors", "get", "1")["trigger_requested_at"])

	shown := u.succeed("dlq", "replay", "1")
	require.Equal(t, "dead letter 1: \"stored\" of connector 1 is fetched again; `echomind why 1` tells what happens\n", shown)
	require.NotNil(t, u.object("connectors", "get", "1")["trigger_requested_at"])
	require.Equal(t, "manual", u.object("connectors", "get", "1")["due_reason"])
	require.Equal(t, []int{2, 3}, u.ids())
	done := u.array("dlq", "replay", "--all")
	require.Len(t, done, 2)
	require.Equal(t, "failed", done[0]["source_id"])
	require.NotEmpty(t, done[0]["triggered_at"])
	require.Nil(t, done[0]["error"])
	require.Empty(t, u.ids())
	require.Equal(t, "no dead letters\n", u.succeed("dlq", "replay", "--all"))
	require.Equal(t, map[string]string{"1 stored": "", "1 failed": "", "1 other": "v1", "2 stored": "v1"}, u.tokens())
	queued, err := js.Stream(context.Background(), topology.DocumentStream)
	require.NoError(t, err)
	require.Zero(t, queued.CachedInfo().State.LastSeq, "the stale message is never published again")
}

// tokens are the version tokens of all documents.
func (u terminal) tokens() map[string]string {
	u.t.Helper()
	tokens := map[string]string{}
	ctx := context.Background()
	rows, err := u.pool().Query(ctx, `SELECT connector_id || ' ' || source_id, version_token FROM documents`)
	require.NoError(u.t, err)
	defer rows.Close()
	for rows.Next() {
		var id, token string
		require.NoError(u.t, rows.Scan(&id, &token))
		tokens[id] = token
	}
	require.NoError(u.t, rows.Err())
	return tokens
}

func TestAReplayThatCannotBeSaysWhatToDoAndKeepsTheLetter(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.add("--refresh", "manual")
	u.succeed("connectors", "disable", "1")
	u.add("--refresh", "manual")
	u.succeed("connectors", "delete", "2", "--yes")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, config_version) VALUES (1, 'a', 'stored', 'v1', 1)`)
	u.letter(js, topology.DocumentSubject, part(1, 1, "a"))
	u.letter(js, topology.DocumentSubject, part(2, 1, "a"))
	u.letter(js, topology.DocumentSubject, "\xff", topology.HeaderSession, uuid.NewString())
	for id, says := range map[string]string{
		"1": "connector 1 of dead letter 1 is disabled; enable it first, then replay: echomind connectors enable 1",
		"2": "connector 2 of dead letter 2 was deleted: there is nothing to fetch again; remove it with `echomind dlq drop 2`",
		"3": "dead letter 3 names no connector, nor a session that the ledger knows",
	} {
		out := u.run("dlq", "replay", id)
		require.Equal(t, 1, out.code)
		require.Empty(t, out.stdout)
		require.Contains(t, out.stderr, says)
	}
	u.add("--refresh", "manual")
	u.letter(js, "connector.sync.file", trigger(t, 3, nil))
	out := u.run("dlq", "replay", "--all")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stdout, "dead letter 4: connector 3 is synced again; `echomind why 3`")
	require.Contains(t, out.stdout, "enable it first")
	require.Contains(t, out.stderr, "3 of 4 dead letters could not be replayed, and stay")
	require.Equal(t, []int{1, 2, 3}, u.ids())
	require.Equal(t, "v1", u.tokens()["1 a"], "nothing is forgotten for a connector that does not run")
	out = u.run("dlq", "replay", "--all", "--connector", "1", "-o", "json")
	require.Equal(t, 1, out.code)
	var done []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &done))
	require.Len(t, done, 1)
	require.Contains(t, done[0]["error"], "is disabled")
	u.succeed("connectors", "enable", "1")
	u.succeed("dlq", "replay", "1")
}

// A process that dies after the commit leaves the letter: asking again must be harmless.
// Of a connector of which others are replayed, too.
func TestATriggerWhoseRunHadParametersIsNotReplayedWithoutThem(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	u.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('j', 'word_count', 1)`)
	var run string
	require.NoError(t, u.pool().QueryRow(context.Background(), `INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, reason, config_version, parameters)
		SELECT gen_random_uuid(), id, type, 'manual', now(), now(), now(), 'failed', 'given up', config_version, '{"target": "one"}' FROM connectors RETURNING id`).Scan(&run))
	u.letter(js, "connector.sync.word_count", "\xff", topology.HeaderSession, run)
	u.letter(js, "connector.sync.word_count", &internalpb.ConnectorSyncRequest{ConnectorId: 1, ChunkingSession: uuid.NewString()})
	out := u.run("dlq", "replay", "--all")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stdout, "`echomind runs show "+run+"` has them: echomind connectors trigger 1 --with PARAMETERS, then echomind dlq drop 1")
	require.Contains(t, out.stdout, "dead letter 2: connector 1 is synced again")
	u.succeed("dlq", "show", "1")
}

func TestReplayingTwiceIsHarmless(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, config_version) VALUES (1, 'a', 'stored', 'v1', 1)`)
	u.letter(js, topology.DocumentSubject, part(1, 1, "a"))
	u.succeed("dlq", "replay", "1")
	before := u.object("connectors", "get", "1")
	u.letter(js, topology.DocumentSubject, part(1, 1, "a")) // as it would be, had it not been removed
	u.succeed("dlq", "replay", "2")
	after := u.object("connectors", "get", "1")
	for _, field := range []string{"status", "next_sync_at", "due_reason", "config_version", "state"} {
		require.Equal(t, before[field], after[field], field)
	}
	require.Equal(t, "", u.tokens()["1 a"])
	require.Empty(t, u.ids())
}

func TestDropRemovesDeadLettersForGood(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	for i := range int32(5) {
		u.letter(js, topology.DocumentSubject, part(1+i%2, 1, "a"))
	}
	u.letter(js, "connector.sync.web", "\xff")
	require.Equal(t, "removed 1 dead letter\n", u.succeed("dlq", "drop", "1"))
	require.Equal(t, []int{2, 3, 4, 5, 6}, u.ids())
	out := u.run("dlq", "drop", "--all")
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stderr, "add --yes")
	require.InDelta(t, 2, u.object("dlq", "drop", "--all", "--connector", "2", "--yes")["dropped"], 0)
	require.Equal(t, []int{3, 5, 6}, u.ids())
	require.Equal(t, "removed 2 dead letters\n", u.succeed("dlq", "drop", "--all", "--subject", "document.process", "--yes"))
	require.Equal(t, "removed 1 dead letter\n", u.succeed("dlq", "drop", "--all", "--yes"))
	require.Equal(t, "removed 0 dead letters\n", u.succeed("dlq", "drop", "--all", "--yes"))
}

func TestReplayAndDropOnTheDatabaseAreInTheAuditAsThroughTheServer(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.add("--refresh", "manual")
	u.letter(js, topology.DocumentSubject, part(1, 1, "a.md"))
	u.letter(js, topology.DocumentSubject, part(1, 2, "b.md"))
	u.letter(js, topology.DocumentSubject, part(1, 3, "c.md"))
	u.letter(js, "connector.sync.web", "\xff")
	u.succeed("dlq", "replay", "1")
	u.succeed("dlq", "drop", "2")
	u.succeed("dlq", "replay", "--all", "--connector", "1")
	u.succeed("dlq", "drop", "--all", "--yes")
	ctx := context.Background()
	rows, err := u.pool().Query(ctx, `SELECT concat_ws(' ', action, object_id, connector_id, source, before ->> 'subject', before ->> 'source_ids') FROM audit
		WHERE action LIKE 'deadletters.%' ORDER BY id`)
	require.NoError(t, err)
	entries, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		`deadletters.replay 1 1 console document.process ["a.md"]`,
		`deadletters.drop 2 1 console document.process ["b.md"]`,
		`deadletters.replay 3 1 console document.process ["c.md"]`,
		`deadletters.drop 4 console connector.sync.web []`,
	}, entries)
}

func TestADeadLetterThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	js := u.jetstream()
	u.letter(js, topology.DocumentSubject, part(1, 1, "a"))
	u.succeed("dlq", "drop", "1")
	gone := func() {
		for _, command := range []string{"show 1", "replay 1", "drop 1", "show 9223372036854775807"} {
			out := u.run(append([]string{"dlq"}, strings.Fields(command)...)...)
			require.Equal(t, 1, out.code, command)
			require.Contains(t, out.stderr, "there is no dead letter", command)
			require.Contains(t, out.stderr, "echomind dlq list", command)
			require.Empty(t, out.stdout, command)
		}
	}
	gone()
	require.NoError(t, js.DeleteStream(context.Background(), topology.DeadLetterStream))
	gone()
	require.Empty(t, u.ids())
	u.lookup.NATSURL = "nats://127.0.0.1:1"
	require.Contains(t, u.run("dlq", "list").stderr, "connect to NATS")
}
