package ours

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/sdk/worker"
)

// Cycle is what whole syncs cost.
type Cycle struct {
	// Rate is how many ended a second, from the first claim to the last verdict by Postgres's clock.
	Rate float64
	// WAL is in bytes, Buffers in pages read or found: what a sync costs with all that the services do beside it.
	WAL, Buffers float64
}

// Cycles makes all n connectors of a type due and has them synced by a handler that finds nothing to do: due, PENDING,
// SYNCING, ACTIVE. The services start for it and end with it, so that nothing else of ours runs beside another measurement.
func (s *System) Cycles(ctx context.Context, kind string, n int) (c Cycle, err error) {
	if err := s.makeDue(ctx, kind); err != nil {
		return c, err
	}
	began, err := s.now(ctx)
	if err != nil {
		return c, err
	}
	before, err := s.place.Spent(ctx, s.name)
	if err != nil {
		return c, err
	}
	var handled atomic.Int64
	stop, err := s.serve(ctx, kind, func(context.Context, *worker.Run) error {
		handled.Add(1)
		return nil
	})
	if err != nil {
		return c, err
	}
	err = eventually(ctx, 10*time.Millisecond, func() (bool, error) { return handled.Load() >= int64(n), nil })
	var took float64
	if err == nil {
		took, err = s.verdicts(ctx, kind, began, n)
	}
	if err = errors.Join(err, stop()); err != nil {
		return c, fmt.Errorf("sync %d connectors of type %s: %w", n, kind, err)
	}
	after, err := s.place.Spent(ctx, s.name)
	if err != nil {
		return c, err
	}
	return Cycle{
		Rate: float64(n) / took, WAL: (after.WAL - before.WAL) / float64(n), Buffers: (after.Buffers - before.Buffers) / float64(n),
	}, nil
}

// verdicts waits until n syncs of a type that began behind a moment have ended well, and returns how long they took together.
func (s *System) verdicts(ctx context.Context, kind string, began time.Time, n int) (took float64, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		return eventually(ctx, 50*time.Millisecond, func() (bool, error) {
			var ended, well int
			err := conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE status IN ('skipped', 'completed')),
				coalesce(extract(epoch FROM max(completed_at) - min(started_at)), 0)::float8
				FROM runs WHERE type = $1 AND completed_at >= $2`, kind, began).Scan(&ended, &well, &took)
			if err == nil && ended > well {
				err = fmt.Errorf("%d of %d runs ended badly", ended-well, ended)
			}
			return well >= n, err
		})
	})
	return took, err
}
