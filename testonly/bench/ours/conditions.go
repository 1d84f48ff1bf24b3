package ours

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// AddJobs adds a type of jobs, and n of them, which all ask one condition.
func (s *System) AddJobs(ctx context.Context, kind string, n int) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		for _, step := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO connector_types (name, kind, max_concurrent_syncs) VALUES ($1, 'job', 0)`, []any{kind}},
			{`CREATE TABLE changes (n integer NOT NULL)`, nil},
			{`GRANT SELECT ON changes TO echomind_conditions`, nil},
			{`INSERT INTO changes VALUES (0)`, nil},
			{`INSERT INTO conditions (name, query) VALUES ('changed', 'SELECT n >= ($1->>''least'')::integer FROM changes')`, nil},
			{`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at, condition, config)
				SELECT 'c' || i, $1, 1 + i % $2::integer, 1440, clock_timestamp(), 'changed', jsonb_build_object('least', 1 + i % 100) FROM generate_series(1, $3::integer) i`,
				[]any{kind, owners, n}},
			{`VACUUM ANALYZE connectors`, nil},
		} {
			if _, err := conn.Exec(ctx, step.sql, step.args...); err != nil {
				return fmt.Errorf("add jobs with a condition: %w", err)
			}
		}
		return nil
	})
}

// AskSeconds makes all jobs of a type due, asks their condition, and dispatches those that meet it, all or none; it returns how long that took.
func (d *Dispatcher) AskSeconds(ctx context.Context, kind string, n int, met bool) (float64, error) {
	if err := d.system.makeDue(ctx, kind); err != nil {
		return 0, err
	}
	if err := d.purge(ctx); err != nil {
		return 0, err
	}
	changes, dispatched := 0, 0
	if met {
		changes, dispatched = 100, n
	}
	err := d.system.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `UPDATE changes SET n = $1`, changes)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("decide the condition: %w", err)
	}
	began := time.Now()
	if err := d.scheduler.Ask(ctx); err != nil {
		return 0, fmt.Errorf("ask: %w", err)
	}
	if err := d.scheduler.Tick(ctx); err != nil {
		return 0, fmt.Errorf("tick: %w", err)
	}
	took := time.Since(began).Seconds()
	err = d.system.with(ctx, func(conn *pgx.Conn) error {
		var asking, open int
		err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM connectors WHERE type = $1 AND asks_condition AND next_sync_at <= clock_timestamp()),
			(SELECT count(*) FROM open_runs WHERE type = $1)`, kind).Scan(&asking, &open)
		if err == nil && (asking != 0 || open != dispatched) {
			err = fmt.Errorf("%d are still to be asked and %d in flight, want none and %d", asking, open, dispatched)
		}
		return err
	})
	return took, err
}
