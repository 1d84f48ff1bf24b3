// Package place runs the servers that figures are taken on: one Postgres with its durable settings, and nats-servers with
// file storage, each in a folder of its own that is gone afterwards.
package place

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/pgserver"
	"github.com/echomind/sync/internal/postgres"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
	// leaveTimeout bounds how long the backends of closed connections take to end.
	leaveTimeout = time.Minute
	// statementTimeout bounds one statement that prepares: a vacuum of the largest table may take long.
	statementTimeout = 30 * time.Minute
	// connections are enough for the largest pool of ours and of a peer together.
	connections = 200
)

// Place is where a run takes place.
type Place struct {
	dir      string
	postgres *pgserver.Server
	admin    *pgx.Conn // of no database that is measured
	brokers  []*natsserver.Server
	log      *slog.Logger
}

// Open starts Postgres in a new folder below parent.
func Open(ctx context.Context, parent string, log *slog.Logger) (p *Place, err error) {
	dir, err := os.MkdirTemp(parent, "echomind-bench-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // Postgres runs as somebody else where we are root
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	p = &Place{dir: dir, log: log}
	err = deadline.Do(ctx, "bench.postgres", startTimeout, func(ctx context.Context) (err error) {
		p.postgres, err = pgserver.Start(ctx, pgserver.Config{Dir: p.cluster(), MaxConnections: connections, Log: log})
		if err != nil {
			return err
		}
		p.admin, err = postgres.Connect(ctx, p.postgres.URL(), "echomind-bench")
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Place) cluster() string { return filepath.Join(p.dir, "postgres") }

// Dir is where the servers keep their data.
func (p *Place) Dir() string { return p.dir }

// Durable says which Postgres this is, and refuses one that does not wait for the disk.
func (p *Place) Durable(ctx context.Context) (version string, err error) {
	var fsync, commit string
	err = p.admin.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')`).
		Scan(&version, &fsync, &commit)
	if err == nil && (fsync != "on" || commit != "on") {
		err = fmt.Errorf("fsync is %s and synchronous_commit %s: the figures would be worth nothing", fsync, commit)
	}
	return fmt.Sprintf("Postgres %s (fsync %s, synchronous_commit %s)", version, fsync, commit), err
}

// Database makes an empty database and returns its URL.
func (p *Place) Database(ctx context.Context, name string) (string, error) {
	return p.postgres.DatabaseURL(name), p.exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize())
}

// Broker starts a nats-server and returns its URL.
func (p *Place) Broker(name string) (string, error) {
	server, err := natsserver.Start(natsserver.Config{Dir: filepath.Join(p.dir, "nats-"+name), Log: p.log})
	if err != nil {
		return "", err
	}
	p.brokers = append(p.brokers, server)
	return server.URL(), nil
}

// Checkpoint lets what comes begin right behind a checkpoint, so that each measurement pays for the same: for a whole page
// in the WAL at its first change, and not for a checkpoint that another one has filled the log for.
func (p *Place) Checkpoint(ctx context.Context) error { return p.exec(ctx, `CHECKPOINT`) }

func (p *Place) exec(ctx context.Context, sql string) error {
	return deadline.Do(ctx, "bench.admin", statementTimeout, func(ctx context.Context) error {
		if _, err := p.admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	})
}

// Postmaster is the process that Postgres's backends are children of.
func (p *Place) Postmaster() (int, error) {
	content, err := os.ReadFile(filepath.Join(p.postgres.Dir(), "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("find Postgres's process: %w", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	return strconv.Atoi(first)
}

// Spent is what a database has read, and what the cluster has written to its log, since its start.
type Spent struct {
	Buffers, WAL float64
}

// Spent reads both once nobody is connected to the database any more: a backend tells what it has read when it ends.
func (p *Place) Spent(ctx context.Context, database string) (s Spent, err error) {
	err = deadline.Do(ctx, "bench.leave", leaveTimeout, func(ctx context.Context) error {
		for pause := time.NewTicker(20 * time.Millisecond); ; {
			var there int
			err := p.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'`,
				database).Scan(&there)
			if err != nil || there == 0 {
				pause.Stop()
				return err
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
				return fmt.Errorf("%d connections to %s stay open: %w", there, database, ctx.Err())
			}
		}
	})
	if err != nil {
		return s, err
	}
	err = p.admin.QueryRow(ctx, `SELECT blks_hit + blks_read, pg_current_wal_insert_lsn() - '0/0'::pg_lsn FROM pg_stat_database
		WHERE datname = $1`, database).Scan(&s.Buffers, &s.WAL)
	return s, err
}

// Close stops the servers and removes the folder. It may be called on a place that is only half open.
func (p *Place) Close() error {
	var errs []error
	err := deadline.Do(context.Background(), "bench.stop", stopTimeout, func(ctx context.Context) error {
		for _, broker := range p.brokers {
			errs = append(errs, broker.Stop(ctx))
		}
		if p.admin != nil {
			errs = append(errs, p.admin.Close(ctx))
		}
		if p.postgres != nil {
			errs = append(errs, p.postgres.Stop(ctx))
		}
		return pgserver.Remove(ctx, p.cluster())
	})
	return errors.Join(append(errs, err, os.RemoveAll(p.dir))...)
}
