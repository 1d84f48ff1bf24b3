package worker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// soon bounds what should take milliseconds.
const soon = 2 * time.Minute

var ctx = context.Background()

// fixture is a database, a broker, and what a test does in the place of the other services.
type fixture struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
	nats *natsserver.Server
	js   jetstream.JetStream

	// What the next worker is given: another way to NATS, how many connections, where its spans go, and where its log and metrics are
	// found.
	natsURL string
	conns   int32
	tracing config.Tracing
	said    *said
	metrics prometheus.Gatherer
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	return newFixtureOn(t, testkit.Database(t, db.Up))
}

func newFixtureOn(t *testing.T, url string) *fixture {
	f := &fixture{t: t, url: url, nats: testkit.NATS(t)}
	var err error
	f.pool, err = postgres.Open(ctx, url, "test", 4)
	require.NoError(t, err)
	t.Cleanup(f.pool.Close)
	f.js = testkit.JetStream(t, f.nats.URL())
	require.NoError(t, streams.EnsureStreams(ctx, f.js))
	return f
}

// at is a worker that reaches Postgres by another way.
func (f *fixture) at(url string) *fixture {
	other := *f
	other.url = url
	return &other
}

// running is a worker at work.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
	once   sync.Once
	err    error
}

// work starts a worker of type file with one slot.
func (f *fixture) work(handle worker.Handler, tune ...func(*worker.Worker)) *running {
	f.t.Helper()
	return f.workWith(func(*worker.Config) {}, handle, tune...)
}

func (f *fixture) workWith(set func(*worker.Config), handle worker.Handler, tune ...func(*worker.Worker)) *running {
	f.t.Helper()
	return f.running(f.newWorker(set, handle), tune...)
}

func (f *fixture) running(w *worker.Worker, tune ...func(*worker.Worker)) *running {
	for _, t := range tune {
		t(w)
	}
	working, cancel := context.WithCancel(ctx)
	r := &running{t: f.t, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- w.Run(working) }()
	f.t.Cleanup(func() { _ = r.stop() })
	return r
}

func (f *fixture) newWorker(set func(*worker.Config), handle worker.Handler) *worker.Worker {
	f.t.Helper()
	return f.newWorkerBy(set, func(cfg worker.Config, on worker.Servers, process worker.Process) (*worker.Worker, error) {
		return worker.New("file", handle, cfg, on, process)
	})
}

func (f *fixture) newWorkerBy(
	set func(*worker.Config), begin func(worker.Config, worker.Servers, worker.Process) (*worker.Worker, error),
) *worker.Worker {
	f.t.Helper()
	f.said = &said{}
	process := connect.NewProcess(slog.New(slog.NewMultiHandler(testkit.Logger(f.t).Handler(), slog.NewTextHandler(f.said, nil))))
	f.metrics = process.Gatherer
	common := config.Common{
		DatabaseURL: f.url, NATSURL: cmp.Or(f.natsURL, f.nats.URL()), DatabaseMaxConns: cmp.Or(f.conns, 4), Tracing: f.tracing,
	}
	servers, err := connect.Open(ctx, common, "worker", process)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = servers.Close() })
	cfg := worker.DefaultConfig()
	cfg.Slots, cfg.Grace = 1, time.Second
	set(&cfg)
	w, err := begin(cfg, servers, process)
	require.NoError(f.t, err)
	return w
}

// pulls waits until one slot asks for a message.
func (f *fixture) pulls() {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		consumer, err := f.js.Consumer(ctx, topology.SyncStream, "sync_file")
		if err == nil && consumer.CachedInfo().NumWaiting != 1 {
			err = fmt.Errorf("%d pulls wait", consumer.CachedInfo().NumWaiting)
		}
		return err
	})
}

// stop asks for a clean stop and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	return r.end()
}

// end waits for the end of Run, and returns what it returned.
func (r *running) end() error {
	r.once.Do(func() {
		select {
		case r.err = <-r.ended:
		case <-time.After(soon):
			r.err = errors.New("the worker does not stop")
			r.t.Error(r.err)
		}
	})
	return r.err
}

// trip is one connector on its way.
type trip struct {
	id      int32
	session uuid.UUID
	version int64
}

// pending is a connector as the scheduler leaves it, whose message is not published yet.
func (f *fixture) pending() trip {
	f.t.Helper()
	var c trip
	require.NoError(f.t, f.pool.QueryRow(ctx, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		VALUES ('notes', 'file', 1, 60) RETURNING id, config_version`).Scan(&c.id, &c.version))
	c.session = movestest.Claim(f.t, f.pool, c.id)
	return c
}

// triggered is a pending connector whose message is published.
func (f *fixture) triggered() trip {
	f.t.Helper()
	c := f.pending()
	f.publish(c)
	return c
}

func (f *fixture) publish(c trip, change ...func(*internalpb.ConnectorSyncRequest)) {
	f.t.Helper()
	request := &internalpb.ConnectorSyncRequest{
		ConnectorId: c.id, ChunkingSession: c.session.String(), ConfigVersion: c.version, TypeName: "file",
	}
	for _, set := range change {
		set(request)
	}
	data, err := proto.Marshal(request)
	require.NoError(f.t, err)
	_, err = f.js.Publish(ctx, "connector.sync.file", data)
	require.NoError(f.t, err)
}

func with(config, state map[string]any) func(*internalpb.ConnectorSyncRequest) {
	return func(r *internalpb.ConnectorSyncRequest) {
		r.Config, _ = structpb.NewStruct(config)
		r.State, _ = structpb.NewStruct(state)
	}
}

// inside runs body as the handler of a fresh connector, and returns the connector once its run is settled.
func (f *fixture) inside(body worker.Handler, change ...func(*internalpb.ConnectorSyncRequest)) trip {
	f.t.Helper()
	c := f.pending()
	f.publish(c, change...)
	r := f.work(body)
	f.settled(c)
	require.NoError(f.t, r.stop())
	return c
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(ctx, sql, args...)
	require.NoError(f.t, err)
}

// rescued ends a run under its worker, as the scheduler does when it takes the worker for lost, and returns what takes its place.
func (f *fixture) rescued(c trip) trip {
	f.t.Helper()
	old := c.session
	c.session = uuid.New()
	movestest.Force(f.t, f.pool, `UPDATE open_runs SET id = $2, worker_id = NULL, try_id = NULL, picked_up_at = NULL WHERE id = $1`,
		old, c.session)
	movestest.Force(f.t, f.pool, `UPDATE connectors SET status = 'PENDING', run_id = $2 WHERE id = $1`, c.id, c.session)
	return c
}

// settled waits until the worker has nothing to do with a run any more.
func (f *fixture) settled(c trip) {
	f.t.Helper()
	f.becomes(c, `status NOT IN ('PENDING', 'SYNCING') OR drain_seq IS NOT NULL`)
}

// becomes waits until a condition on the connector k and its run r holds.
func (f *fixture) becomes(c trip, condition string) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		holds, row, err := f.look(c, condition)
		if err == nil && !holds {
			err = fmt.Errorf("not %s: %s", condition, row)
		}
		return err
	})
}

// is asserts that a condition on the connector k and its run r holds now.
func (f *fixture) is(c trip, condition string) {
	f.t.Helper()
	holds, row, err := f.look(c, condition)
	require.NoError(f.t, err)
	require.True(f.t, holds, "not %s: %s", condition, row)
}

func (f *fixture) look(c trip, condition string) (holds bool, row string, err error) {
	err = f.pool.QueryRow(ctx, `SELECT coalesce(`+condition+`, false), concat(v::text, v.run::text) FROM (
		SELECT k.*, r.drain_seq, r.fetched_at, r.picked_up_at, r.try_id, r.worker_id, r.status AS verdict, r.reason,
			r.error_message, r.progress_done, r.progress_total, r.progress_text, r.warnings, r AS run, (SELECT w.expires_at FROM workers w WHERE w.id = r.worker_id) AS lease_expires_at
		FROM connectors k LEFT JOIN scheduler_runs r ON r.id = $2 WHERE k.id = $1) v`, c.id, c.session).Scan(&holds, &row)
	return holds, row, err
}

// everything is all that is stored of a connector and its runs.
func (f *fixture) everything(c trip) (text string) {
	f.t.Helper()
	require.NoError(f.t, f.pool.QueryRow(ctx, `SELECT concat(c::text, (SELECT string_agg(r::text, ' ' ORDER BY r.id)
		FROM scheduler_runs r WHERE r.connector_id = c.id)) FROM connectors c WHERE c.id = $1`, c.id).Scan(&text))
	return text
}

// held is how many messages a stream holds.
func (f *fixture) held(stream string) int {
	f.t.Helper()
	s, err := f.js.Stream(ctx, stream)
	require.NoError(f.t, err)
	return int(s.CachedInfo().State.Msgs)
}

func (f *fixture) empties(stream string) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		if n := f.held(stream); n > 0 {
			return fmt.Errorf("%s holds %d messages", stream, n)
		}
		return nil
	})
}

// sent are the messages of a session by their numbers; 0 is sync completed.
func (f *fixture) sent(c trip) map[int64]*internalpb.DocumentProcessRequest {
	f.t.Helper()
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(f.t, err)
	all := map[int64]*internalpb.DocumentProcessRequest{}
	for seq := max(stream.CachedInfo().State.FirstSeq, 1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		raw, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		require.NoError(f.t, err)
		m := &internalpb.DocumentProcessRequest{}
		require.NoError(f.t, proto.Unmarshal(raw.Data, m))
		require.LessOrEqual(f.t, len(raw.Data), topology.MaxMessageBytes)
		require.Equal(f.t, m.ChunkingSession, raw.Header.Get(topology.HeaderSession))
		require.NoError(f.t, uuid.Validate(m.Try))
		require.Equal(f.t, m.Try, raw.Header.Get(topology.HeaderTry))
		require.Equal(f.t, fmt.Sprint(m.Number), raw.Header.Get(topology.HeaderNumber))
		require.Equal(f.t, "file", raw.Header.Get(topology.HeaderType))
		if m.ChunkingSession == c.session.String() {
			if before := all[m.Number]; before != nil {
				require.True(f.t, proto.Equal(before, m), "number %d was given twice", m.Number)
			}
			all[m.Number] = m
		}
	}
	return all
}

// whole asserts that a session's messages are 1..n and a sync completed that says n.
func (f *fixture) whole(c trip, n int) map[int64]*internalpb.DocumentProcessRequest {
	f.t.Helper()
	sent := f.sent(c)
	require.NotNil(f.t, sent[0].GetCompleted(), "no sync completed")
	require.Equal(f.t, int64(n), sent[0].GetCompleted().Total)
	require.Len(f.t, sent, n+1)
	for no := int64(1); no <= int64(n); no++ {
		require.NotNil(f.t, sent[no], "number %d is missing", no)
	}
	return sent
}

func note(i int) worker.Document {
	return worker.Document{
		SourceID: fmt.Sprintf("note/%d", i), VersionToken: "v1", ContentHash: "aa",
		Chunks: []chunk.Chunk{{Text: fmt.Sprintf("note %d", i), End: 8}},
	}
}

// await fails the test where nothing arrives.
func await[T any](t *testing.T, what string, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(soon):
		t.Fatalf("%s: nothing happened", what)
	}
	return value
}

func (f *fixture) one(sql string, args ...any) (value string) {
	f.t.Helper()
	rows, err := f.pool.Query(ctx, sql, args...)
	require.NoError(f.t, err)
	value, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	require.NoError(f.t, err)
	return value
}
