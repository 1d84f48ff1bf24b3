package model

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// within bounds every wait for something real.
const within = 20 * time.Second

// lab is one database, one nats-server, and the processes on them.
type lab struct {
	databaseURL, natsURL string
	book                 *logbook
	user                 *process // looks, and does what users and operators do
	schedulers, semantic [2]*process
	worker               *process // the hands of the workers
	kit                  *process
	streamsHeld          jetstream.JetStream
}

func newLab(t testing.TB) *lab {
	t.Helper()
	return openLab(t, testkit.Database(t, db.Up), testkit.NATS(t).URL())
}

func openLab(t testing.TB, databaseURL, natsURL string) *lab {
	t.Helper()
	l := &lab{databaseURL: databaseURL, natsURL: natsURL, book: &logbook{}}
	l.user = l.open(t, "user")
	l.schedulers = [2]*process{l.open(t, "scheduler A"), l.open(t, "scheduler B")}
	l.semantic = [2]*process{l.open(t, "semantic A"), l.open(t, "semantic B")}
	l.worker = l.open(t, "worker")
	l.kit = l.open(t, "kit")
	l.streamsHeld = l.user.servers.Stream
	if err := streams.EnsureStreams(t.Context(), l.streamsHeld); err != nil {
		t.Fatal(err)
	}
	return l
}

// open makes a process whose connections can be made to die, and to lose an answer.
func (l *lab) open(t testing.TB, name string) *process {
	t.Helper()
	p := &process{name: name}
	p.log = slog.New(&recorder{book: l.book, process: p})
	cfg, err := pgxpool.ParseConfig(l.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.Tracer = p
	cfg.ConnConfig.DialFunc = p.dial
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := nats.Connect(l.natsURL, nats.Name(name), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	stream, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	p.servers = &connect.Servers{Pool: pool, NATS: conn, Stream: stream}
	return p
}

// empty makes the lab as new: an empty database, empty streams.
func (l *lab) empty(t tb) {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	for _, stream := range []string{topology.SyncStream, topology.DocumentStream, topology.DeadLetterStream} {
		_ = l.streamsHeld.DeleteStream(ctx, stream) // it may be gone already
	}
	// The server removes the folder of the last stream for a moment after the stream itself.
	until(t, func() error { return streams.EnsureStreams(ctx, l.streamsHeld) })
	l.force(t, `TRUNCATE connectors, open_runs, runs, unswept_runs, workers, run_messages, run_checkpoints, message_tries, sightings,
		documents, chunks, unnamed_chunks, deleted_connectors RESTART IDENTITY`)
	l.book.forget()
}

func (l *lab) exec(t tb, sql string, args ...any) int64 {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	tag, err := l.user.servers.Pool.Exec(ctx, sql, args...)
	must(t, sql, err)
	return tag.RowsAffected()
}

// force writes what only moves may write.
func (l *lab) force(t tb, sql string, args ...any) int64 {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	n, err := movestest.TryForce(ctx, l.user.servers.Pool, sql, args...)
	must(t, sql, err)
	return n
}

func (l *lab) stream(t tb, name string) jetstream.Stream {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	must(t, "create the streams", streams.EnsureStreams(ctx, l.streamsHeld))
	stream, err := l.streamsHeld.Stream(ctx, name)
	must(t, "ask for stream "+name, err)
	return stream
}

func (l *lab) queued(t tb, name string) uint64 { return l.stream(t, name).CachedInfo().State.Msgs }

func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), within)
}

// tb is what a random history and a test of its own have in common.
type tb interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func must(t tb, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// until asks until there is no error any more.
func until(t tb, ask func() error) {
	t.Helper()
	late := time.Now().Add(within)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("not within %s: %v", within, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
