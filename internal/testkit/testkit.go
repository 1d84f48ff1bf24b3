// Package testkit gives tests real servers of their own: a Postgres cluster per test binary with a database per
// test, and a nats-server per test.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/pgserver"
)

const serverTimeout = 90 * time.Second

// cluster is the one of this test binary. The kernel ends it with the process.
var cluster struct {
	once     sync.Once
	server   *pgserver.Server
	err      error
	mu       sync.Mutex // CREATE DATABASE from one template goes one at a time
	name     atomic.Int64
	migrated map[string]bool
}

// Database returns the URL of a database of this test's own, in which migrate has run: once per cluster, into a
// template that each test's database is copied from.
func Database(t testing.TB, migrate func(context.Context, string) error) string {
	t.Helper()
	cluster.once.Do(func() { cluster.server, cluster.err = start(filepath.Join(tempDir(), "shared")) })
	if cluster.err != nil {
		t.Fatalf("start PostgreSQL: %v", cluster.err)
	}
	return create(t, cluster.server, "template_echomind", migrate)
}

// PrivatePostgres returns a cluster of this test's own, which it may stop and restart, and a migrated database in it.
func PrivatePostgres(t testing.TB, migrate func(context.Context, string) error) (*pgserver.Server, string) {
	t.Helper()
	server, err := start(filepath.Join(tempDir(), fmt.Sprintf("private-%d", cluster.name.Add(1))))
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	if err := migrate(ctx, server.URL()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return server, server.URL()
}

func start(dir string) (*pgserver.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	return pgserver.Start(ctx, pgserver.Config{Dir: dir, Volatile: true, MaxConnections: 300})
}

func create(t testing.TB, server *pgserver.Server, template string, migrate func(context.Context, string) error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	admin, err := pgx.Connect(ctx, server.DatabaseURL("postgres"))
	if err != nil {
		t.Fatalf("connect to PostgreSQL: %v", err)
	}
	defer func() { _ = admin.Close(ctx) }()
	if !cluster.migrated[template] {
		if _, err := admin.Exec(ctx, `CREATE DATABASE `+template); err != nil {
			t.Fatalf("make the template: %v", err)
		}
		if err := migrate(ctx, server.DatabaseURL(template)); err != nil {
			t.Fatalf("migrate the template: %v", err)
		}
		cluster.migrated = map[string]bool{template: true}
	}
	name := fmt.Sprintf("test_%d", cluster.name.Add(1))
	if _, err := admin.Exec(ctx, `CREATE DATABASE `+name+` TEMPLATE `+template); err != nil {
		t.Fatalf("make a database: %v", err)
	}
	t.Cleanup(func() { drop(t, server, name) })
	return server.DatabaseURL(name)
}

func drop(t testing.TB, server *pgserver.Server, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	admin, err := pgx.Connect(ctx, server.DatabaseURL("postgres"))
	if err == nil {
		_, err = admin.Exec(ctx, `DROP DATABASE `+name+` WITH (FORCE)`)
		err = errors.Join(err, admin.Close(ctx))
	}
	if err != nil {
		t.Errorf("drop database %s: %v", name, err)
	}
}

// NATS returns a nats-server of this test's own.
func NATS(t testing.TB) *natsserver.Server {
	t.Helper()
	server, err := natsserver.Start(natsserver.Config{Dir: filepath.Join(t.TempDir(), "nats"), Volatile: true})
	if err != nil {
		t.Fatalf("start nats-server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("stop nats-server: %v", err)
		}
	})
	return server
}

// Eventually asks until there is no error any more, and fails the test with the last one when that takes longer.
func Eventually(t testing.TB, within time.Duration, ask func() error) {
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
		time.Sleep(10 * time.Millisecond)
	}
}

// Logger writes what a test's services log into the test's own log, from warnings up.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// tempDir is a folder that the unprivileged user of Postgres can reach, and that Main removes.
var tempDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "echomind-test-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		panic(err)
	}
	return dir
})

// Main runs a package's tests, then stops their cluster and removes its folder. Call it from TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	if cluster.server != nil {
		if err := cluster.server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := os.RemoveAll(tempDir()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
