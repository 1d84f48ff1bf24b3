package world

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/pgserver"
	"github.com/echomind/sync/internal/streams"
)

// connections are those that Postgres takes: what two of each program may have, and the harness. A program that finds none free believes workers to be cut off, and has none
// of their runs rescued.
const connections = 140

func (w *World) openServers(ctx context.Context, cfg Config) error {
	binDir := ""
	var err error
	if cfg.Clock {
		if binDir, err = w.shiftable(cfg.Dir); errors.Is(err, ErrNoClock) {
			cfg.Log.Warn("Postgres's clock stays as it is", "err", err)
		} else if err != nil {
			return err
		}
	}
	w.Postgres, err = pgserver.Start(ctx, pgserver.Config{
		BinDir: binDir, Dir: filepath.Join(cfg.Dir, "postgres"), Volatile: !cfg.Replica, MaxConnections: connections, Log: cfg.Log, // a volatile one writes no log that a replica could follow
	})
	if err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	w.onClose(func() error { return w.Postgres.Stop(context.Background()) })
	pool, err := pgxpool.ParseConfig(w.Postgres.URL())
	if err != nil {
		return errors.New("the URL of Postgres cannot be read")
	}
	pool.ConnConfig.RuntimeParams["application_name"] = "chaos"
	if w.Pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return fmt.Errorf("open a pool: %w", err)
	}
	w.onClose(func() error { w.Pool.Close(); return nil })
	if err := w.countStatements(ctx); err != nil {
		return err
	}
	if err := db.Up(ctx, w.Postgres.URL()); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if cfg.Replica {
		if err := w.openReplica(ctx, cfg); err != nil {
			return err
		}
	}
	log, err := w.logFile(cfg, "nats-server")
	if err != nil {
		return err
	}
	size := 1
	if cfg.Cluster {
		size = clusterSize
	}
	if w.users, err = newUsers(cfg.Users, cfg.Dir); err != nil {
		return err
	}
	if w.NATS, err = newNATS(filepath.Join(cfg.Bin, "nats-server"), filepath.Join(cfg.Dir, "nats"), size, w.users, log); err != nil {
		return err
	}
	w.onClose(func() error { w.NATS.Kill(); return nil })
	if err := w.NATS.Start(ctx); err != nil {
		return err
	}
	return w.connect(ctx, cfg)
}

// pingEvery is how often the harness asks whether its nats-server is still there: one that is frozen hangs up on nobody.
const pingEvery = time.Second

// connect opens the harness's own connection to NATS, and what needs one.
func (w *World) connect(ctx context.Context, cfg Config) (err error) {
	w.conn, err = nats.Connect(w.NATS.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2))
	if err != nil {
		return fmt.Errorf("connect to nats-server: %w", err)
	}
	w.onClose(func() error { w.conn.Close(); return nil })
	if w.Stream, err = jetstream.New(w.conn); err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	if cfg.Cluster {
		if err := w.replicate(ctx); err != nil {
			return err
		}
	}
	if w.users != nil { // services make no streams then
		if err := streams.Apply(ctx, w.Stream, streams.Size{}); err != nil {
			return fmt.Errorf("make the streams: %w", err)
		}
	}
	if !cfg.Qdrant {
		return nil
	}
	return w.openQdrant(ctx, cfg)
}

// countStatements lets Postgres count what each statement reads, where that extension is installed.
func (w *World) countStatements(ctx context.Context) error {
	var there bool
	err := w.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_stat_statements')`).Scan(&there)
	if err != nil || !there {
		return err
	}
	if _, err := w.Pool.Exec(ctx, `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`); err != nil {
		return fmt.Errorf("load pg_stat_statements: %w", err)
	}
	if err := w.Postgres.Restart(ctx); err != nil {
		return fmt.Errorf("load pg_stat_statements: %w", err)
	}
	w.Pool.Reset()
	if _, err := w.Pool.Exec(ctx, `CREATE EXTENSION pg_stat_statements`); err != nil {
		return fmt.Errorf("create pg_stat_statements: %w", err)
	}
	return nil
}

func (w *World) openQdrant(ctx context.Context, cfg Config) error {
	log, err := w.logFile(cfg, "qdrant")
	if err != nil {
		return err
	}
	if w.Qdrant, err = newQdrant(filepath.Join(cfg.Bin, "qdrant"), log); err != nil {
		return err
	}
	if err := w.Qdrant.Start(ctx); err != nil {
		return err
	}
	w.onClose(func() error { w.Qdrant.Kill(); return nil })
	return nil
}
