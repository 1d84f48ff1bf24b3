package testkit

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/pgserver"
)

// PrivatePostgres is a server of this test's own, for it to stop, kill, freeze and restart (which keeps the URL), and
// the URL of its database, in which migrate has run. What was committed survives all of that. nil = no migration.
func PrivatePostgres(
	t testing.TB, migrate func(ctx context.Context, url string) error,
) (server *pgserver.Server, url string) {
	t.Helper()
	dir := filepath.Join(folder(t), "postgres")
	server, err := startPostgres(dir, Logger(t))
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		inTime(t, "remove the PostgreSQL server", func(ctx context.Context) error {
			if err := server.Stop(ctx); err != nil {
				return err
			}
			return pgserver.Remove(ctx, dir)
		})
	})
	if migrate != nil {
		inTime(t, "migrate", func(ctx context.Context) error { return migrate(ctx, server.URL()) })
	}
	return server, server.URL()
}

// NATS is a server of this test's own, for it to stop and restart, with its streams or without; both keep the URL.
func NATS(t testing.TB) *natsserver.Server {
	t.Helper()
	server, err := natsserver.Start(natsserver.Config{
		Dir: filepath.Join(folder(t), "nats"), Volatile: true, Log: Logger(t),
	})
	if err != nil {
		t.Fatalf("start nats-server: %v", err)
	}
	t.Cleanup(func() {
		inTime(t, "stop nats-server", server.Stop)
	})
	return server
}

// folder is one of this test's own, in that of the run, whose end removes it even where this process is killed.
func folder(t testing.TB) string {
	t.Helper()
	r, err := theRun()
	if err != nil {
		t.Fatalf("join the test run: %v", err)
	}
	dir, err := os.MkdirTemp(r.dir, "test-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatalf("make a folder: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the test's folder: %v", err)
		}
	})
	return dir
}

// Main runs a package's tests. What they call has as long as it may take on a busy machine, so it is not for tests of deadlines. There is nothing to stop: see the
// package's comment.
func Main(m *testing.M) int {
	deadline.Stretch(busy)
	collectLess()
	return m.Run()
}

// collectLess lets the garbage of tests, whose heaps are small, grow before it is collected: otherwise the collector takes a third of their
// time. Above mostGarbage it collects as ever. GOGC in the environment wins.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(1000)
		debug.SetMemoryLimit(mostGarbage)
	}
}

const mostGarbage = 512 << 20

// JetStream is a client of a server, which comes back when the server does. A call without a deadline has as long as a
// busy machine may need, where the library gives it 5 s.
func JetStream(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, nats.Timeout(time.Minute), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatalf("connect to nats-server: %v", err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatalf("use JetStream: %v", err)
	}
	return js
}
