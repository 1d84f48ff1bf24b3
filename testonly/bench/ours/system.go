// Package ours measures this system: its scheduler alone, and whole syncs by scheduler, worker and semantic, as they are
// built into the programs, each with the rights of its role.
package ours

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/bench/place"
)

const (
	// owners share the connectors evenly.
	owners = 5000
	// Slots is how many syncs the worker has under way at once: an eighth of River's workers.
	Slots       = 256
	workerConns = 20
)

// System is a database and a broker of our own, where nothing runs unless it is measured.
type System struct {
	place    *place.Place
	name     string
	url, bus string
	log      *slog.Logger
}

// New makes the database, with our schema, and the broker.
func New(ctx context.Context, p *place.Place, name string, log *slog.Logger) (*System, error) {
	s := &System{place: p, name: name, log: log}
	var err error
	if s.url, err = p.Database(ctx, name); err != nil {
		return nil, err
	}
	if err = db.Up(ctx, s.url); err != nil {
		return nil, fmt.Errorf("make the schema: %w", err)
	}
	s.bus, err = p.Broker(name)
	return s, err
}

// URL is where its database is.
func (s *System) URL() string { return s.url }

// Type adds a type of connectors. A cap of 0 is none.
func (s *System) Type(ctx context.Context, name string, limit int) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ($1, $2)`, name, limit)
		return err
	})
}

// Add adds connectors at rest that are synced daily, and were right now.
func (s *System) Add(ctx context.Context, kind string, n int) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
			SELECT 'c' || i, $1, 1 + i % $2::integer, 1440, clock_timestamp() FROM generate_series(1, $3::integer) i`, kind, owners, n)
		if err == nil {
			_, err = conn.Exec(ctx, `VACUUM ANALYZE connectors`)
		}
		return err
	})
}

// makeDue makes all connectors of a type due by their schedule, whatever they did before, and clears away what that left.
func (s *System) makeDue(ctx context.Context, kind string) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, step := range []struct {
				sql  string
				args []any
			}{
				{`SELECT set_config('echomind.moving', 'on', true)`, nil},
				{`DELETE FROM open_runs WHERE type = $1`, []any{kind}},
				{`UPDATE connectors SET status = 'ACTIVE', run_id = NULL, needs_plan = false, due_reason = 'schedule',
					next_sync_at = clock_timestamp(), slot_at = clock_timestamp() WHERE type = $1`, []any{kind}},
			} {
				if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			_, err = conn.Exec(ctx, `VACUUM ANALYZE connectors, open_runs`)
		}
		if err != nil {
			return fmt.Errorf("make connectors due: %w", err)
		}
		return s.place.Checkpoint(ctx)
	})
}

// spreadDue has connectors that are due be due one after another, the first of them at a moment.
func (s *System) spreadDue(ctx context.Context, kind string, from time.Time, over time.Duration) error {
	err := s.with(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT set_config('echomind.moving', 'on', true)`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE connectors c SET next_sync_at = d.at, slot_at = d.at
				FROM (SELECT id, $2::timestamptz + $3::interval * (row_number() OVER (ORDER BY id) - 1) / count(*) OVER () AS at FROM connectors WHERE type = $1) d WHERE c.id = d.id`, kind, from, over)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("make connectors due one after another: %w", err)
	}
	return nil
}

// now is Postgres's clock.
func (s *System) now(ctx context.Context) (now time.Time, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now) })
	return now, err
}

// with works on a connection that is gone afterwards, so that what it reads is counted before anything is measured.
func (s *System) with(ctx context.Context, work func(*pgx.Conn) error) (err error) {
	conn, err := postgres.Connect(ctx, s.url, "echomind-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return work(conn)
}

// shared is the configuration of a service with the rights of its role.
func (s *System) shared(cfg *config.Common, role string) {
	cfg.DatabaseURL, cfg.NATSURL, cfg.DatabaseRole, cfg.Tracing = s.url, s.bus, role, config.Tracing{}
}

// scheduling is the scheduler's configuration: its defaults. A type's own cap counts.
func (s *System) scheduling() (cfg scheduler.Config, err error) {
	if err = config.Load(&cfg); err == nil {
		s.shared(&cfg.Common, "echomind_scheduler")
	}
	return cfg, err
}

// serve runs scheduler, semantic and a worker of one type until stop, which returns why one of them ended early.
func (s *System) serve(ctx context.Context, kind string, handle worker.Handler) (stop func() error, err error) {
	scheduling, err := s.scheduling()
	if err != nil {
		return nil, err
	}
	var storing semantic.Config
	var working config.Common
	if err := config.LoadAll(&storing, &working); err != nil {
		return nil, err
	}
	s.shared(&storing.Common, "echomind_semantic")
	s.shared(&working, "echomind_worker")
	working.DatabaseMaxConns = workerConns
	process := s.process()
	servers, err := connect.Open(ctx, working, "worker", process)
	if err != nil {
		return nil, err
	}
	tuning := worker.DefaultConfig()
	tuning.Slots = Slots
	w, err := worker.New(kind, handle, tuning, servers, process)
	if err != nil {
		return nil, errors.Join(err, servers.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.Run(ctx) })
	group.Go(func() error { return scheduler.Run(ctx, scheduling, process) })
	group.Go(func() error { return semantic.Run(ctx, storing, process) })
	return func() error {
		cancel()
		return errors.Join(group.Wait(), servers.Close())
	}, nil
}

// process is one whose broker is its own, so that nobody is warned of streams without replicas.
func (s *System) process() connect.Process {
	process := connect.NewProcess(s.log)
	process.Embedded = true
	return process
}

// eventually asks, now and then, until the answer is yes.
func eventually(ctx context.Context, every time.Duration, ask func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if yes, err := ask(); err != nil || yes {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
