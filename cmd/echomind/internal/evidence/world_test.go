package evidence_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// world is one connector among real servers, and the moves that bring it where a test wants it.
type world struct {
	t       *testing.T
	url     string
	pool    *pgxpool.Pool
	js      jetstream.JetStream
	broker  *broker.Broker
	away    error
	id      int32
	session uuid.UUID
	try     lifecycle.Try
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{t: t, url: testkit.Database(t, db.Up)}
	pool, err := postgres.Open(ctx, w.url, "echomind", 4)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	w.pool = pool
	server := testkit.NATS(t)
	w.js = testkit.JetStream(t, server.URL())
	require.NoError(t, streams.EnsureStreams(ctx, w.js))
	w.broker, err = broker.Open(server.URL(), config.NATSAccess{})
	require.NoError(t, err)
	t.Cleanup(w.broker.Close)
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

// connector adds the connector in question, of type file unless columns say otherwise.
func (w *world) connector(columns, values string) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(context.Background(), `INSERT INTO connectors (name, type, user_id`+columns+
		`) VALUES ('docs', 'file', 1`+values+`) RETURNING id`).Scan(&w.id))
}

// pending claims it, as the scheduler does, so long ago.
func (w *world) pending(ago string) {
	w.t.Helper()
	w.connector(", refresh_freq_minutes", ", 60")
	w.session = w.claim(w.id, ago)
}

func (w *world) claim(id int32, ago string) uuid.UUID {
	w.t.Helper()
	run := movestest.Claim(w.t, w.pool, id)
	w.exec(`UPDATE open_runs SET due_at = clock_timestamp() - $2::interval, started_at = clock_timestamp() - $2::interval,
		dispatched_at = clock_timestamp() - $2::interval WHERE id = $1`, run, ago)
	return run
}

// syncing picks it up, with a lease that ends in so long.
func (w *world) syncing(lease string) {
	w.t.Helper()
	w.pending("1 minute")
	w.try = movestest.PickUp(w.t, w.pool, w.id, w.session, time.Minute)
	w.exec(`UPDATE workers SET expires_at = clock_timestamp() + $1::interval`, lease)
}

// foreign picks it up without a worker, so long ago.
func (w *world) foreign(ago string) {
	w.t.Helper()
	w.pending(ago)
	w.exec(`SELECT moves.pick_up($1, $2, gen_random_uuid())`, w.id, w.session)
	w.exec(`UPDATE open_runs SET picked_up_at = clock_timestamp() - $1::interval`, ago)
}

// draining ends its fetch: sync completed is message number seq of the document stream.
func (w *world) draining(seq int) {
	w.t.Helper()
	w.syncing("10 seconds")
	w.exec(`SELECT moves.drain($1, $2, $3)`, w.try.Run, w.try.ID, seq)
}

// failed ends its run with a failure of a kind.
func (w *world) failed(kind lifecycle.Failure) {
	w.t.Helper()
	w.syncing("10 seconds")
	w.fail(kind)
}

func (w *world) fail(kind lifecycle.Failure) {
	w.t.Helper()
	require.NoError(w.t, lifecycle.New(w.pool).Fail(context.Background(), w.try, kind, "the site answers 500"))
}

// lostInTransit ends its run because the stream does not hold its documents any more.
func (w *world) lostInTransit() {
	w.t.Helper()
	w.draining(7)
	w.exec(`SELECT moves.fail_lost_in_transit(ARRAY[$1::uuid], 8, 9)`, w.session)
}

// due makes it due since so long.
func (w *world) due(ago string) {
	w.t.Helper()
	w.connector(", refresh_freq_minutes", ", 60")
	movestest.Force(w.t, w.pool, `UPDATE connectors SET next_sync_at = clock_timestamp() - $2::interval WHERE id = $1`, w.id, ago)
}

// waitsForKey is due and waits for concurrency key k, of which so many may have a place, and so many have.
func (w *world) waitsForKey(most, held int) {
	w.due("2 seconds")
	w.fullKey(most, held)
}

// follows has it run after connector 99 of the same owner.
func (w *world) follows() {
	w.t.Helper()
	w.exec(`INSERT INTO connectors (id, name, type, user_id) SELECT 99, 'upstream', type, user_id FROM connectors WHERE id = $1`, w.id)
	w.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, 99)`, w.id)
}

// fullKey has it wait for concurrency key k, of which so many may have a place, and so many have.
func (w *world) fullKey(most, held int) {
	w.t.Helper()
	w.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('k', $1)`, most)
	w.exec(`INSERT INTO key_places (key, run_id, connector_id, user_id) SELECT 'k', gen_random_uuid(), 99, 1 FROM generate_series(1, $1::int)`, held)
	w.exec(`SELECT moves.park(ARRAY[$1::int], ARRAY['k'])`, w.id)
}

// others puts n more connectors of the type in flight, claimed so long ago.
func (w *world) others(n int, ago string) (ids []int32) {
	w.t.Helper()
	for range n {
		var id int32
		require.NoError(w.t, w.pool.QueryRow(context.Background(), `INSERT INTO connectors (name, type, user_id,
			refresh_freq_minutes) VALUES ('other', 'file', 2, 60) RETURNING id`).Scan(&id))
		w.claim(id, ago)
		ids = append(ids, id)
	}
	return ids
}

// message queues a trigger that was dispatched so long ago, for this connector or for another.
func (w *world) message(ago time.Duration, session uuid.UUID) {
	w.t.Helper()
	var now time.Time
	require.NoError(w.t, w.pool.QueryRow(context.Background(), `SELECT clock_timestamp()`).Scan(&now))
	msg := nats.NewMsg("connector.sync.file")
	msg.Header.Set(topology.HeaderDispatchedAt, wire.FormatTime(now.Add(-ago)))
	msg.Header.Set(topology.HeaderSession, session.String())
	_, err := w.js.PublishMsg(context.Background(), msg)
	require.NoError(w.t, err)
}

// documents publishes n document messages.
func (w *world) documents(n int) {
	w.t.Helper()
	for range n {
		_, err := w.js.Publish(context.Background(), topology.DocumentSubject, []byte("x"))
		require.NoError(w.t, err)
	}
}

// worker subscribes. One that is busy holds the oldest message; one that is free waits for the next.
func (w *world) worker(busy bool) {
	w.t.Helper()
	declared, err := topology.SyncConsumer("file")
	require.NoError(w.t, err)
	consumer, err := streams.EnsureConsumer(context.Background(), w.js, topology.SyncStream, declared)
	require.NoError(w.t, err)
	if busy {
		_, err = consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
	} else {
		_, err = consumer.Fetch(1000, jetstream.FetchMaxWait(time.Minute))
	}
	require.NoError(w.t, err)
}

// service connects to Postgres under a service's name.
func (w *world) service(name string) {
	w.t.Helper()
	ctx := context.Background()
	cfg, err := pgx.ParseConfig(w.url)
	require.NoError(w.t, err)
	cfg.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(ctx, cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close(ctx) })
}

func (w *world) why(settings evidence.Settings) evidence.Answer {
	w.t.Helper()
	gathered, err := evidence.Gather(context.Background(), w.pool, w.broker, w.away, w.id, settings)
	require.NoError(w.t, err)
	return evidence.Explain(gathered)
}
