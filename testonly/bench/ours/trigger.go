package ours

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/bench/figures"
)

// PickUps triggers one connector of a type again and again, while nothing else is due, and returns the median and the 99th
// percentile of the times until it was picked up, in milliseconds by Postgres's clock.
func (s *System) PickUps(ctx context.Context, kind string, triggers int) (p50, p99 float64, err error) {
	started := make(chan struct{}, 1)
	stop, err := s.serve(ctx, kind, func(context.Context, *worker.Run) error {
		started <- struct{}{}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	var times []float64
	err = s.with(ctx, func(conn *pgx.Conn) (err error) {
		times, err = pickUps(ctx, conn, kind, triggers, started)
		return err
	})
	if err = errors.Join(err, stop()); err != nil {
		return 0, 0, fmt.Errorf("trigger a connector of type %s: %w", kind, err)
	}
	return figures.Median(times), figures.Quantile(times, 0.99), nil
}

func pickUps(ctx context.Context, conn *pgx.Conn, kind string, triggers int, started <-chan struct{}) ([]float64, error) {
	var id int32
	var began time.Time
	if err := conn.QueryRow(ctx, `SELECT min(id), clock_timestamp() FROM connectors WHERE type = $1`, kind).Scan(&id, &began); err != nil {
		return nil, err
	}
	// The first one finds services that may still be starting, and does not count.
	for range triggers + 1 {
		if _, err := conn.Exec(ctx, `UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id); err != nil {
			return nil, err
		}
		select {
		case <-started:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		err := eventually(ctx, 5*time.Millisecond, func() (rests bool, err error) {
			err = conn.QueryRow(ctx, `SELECT status = 'ACTIVE' FROM connectors WHERE id = $1`, id).Scan(&rests)
			return rests, err
		})
		if err != nil {
			return nil, err
		}
	}
	rows, err := conn.Query(ctx, `SELECT 1000 * extract(epoch FROM picked_up_at - trigger_requested_at)::float8 FROM runs
		WHERE connector_id = $1 AND trigger = 'manual' AND started_at >= $2 ORDER BY started_at OFFSET 1`, id, began)
	if err != nil {
		return nil, err
	}
	times, err := pgx.CollectRows(rows, pgx.RowTo[float64])
	if err == nil && len(times) != triggers {
		err = fmt.Errorf("the ledger has %d runs, %d were triggered", len(times), triggers)
	}
	return times, err
}
