package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	dbosQueue = "nothing"
	// Its default looks once a second.
	dbosPoll    = 20 * time.Millisecond
	dbosTimeout = 30 * time.Second
	// It has no call that enqueues many: this many enqueue at once.
	dbosWriters = 32
	// Without a bound it starts everything that is queued at once.
	dbosWorkers = 500
)

// DBOS is dbos-inc/dbos-transact-golang: workflows whose every run is a row, as ours is.
type DBOS struct {
	pool   *pgxpool.Pool
	settle func(context.Context) error
	log    *slog.Logger
}

// NewDBOS connects to an empty database. settle lets each measurement begin behind a checkpoint.
func NewDBOS(ctx context.Context, url string, settle func(context.Context) error, log *slog.Logger) (*DBOS, error) {
	pool, err := open(ctx, url)
	if err != nil {
		return nil, err
	}
	return &DBOS{pool, settle, log}, nil
}

// Close ends the connections.
func (d *DBOS) Close() { d.pool.Close() }

// Rates enqueues n workflows that do nothing, then works them; both is one after the other.
func (d *DBOS) Rates(ctx context.Context, n int) (out []float64, err error) {
	own, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", SystemDBPool: d.pool, Logger: d.log, ApplicationVersion: "1"})
	if err != nil {
		return nil, fmt.Errorf("make the DBOS context: %w", err)
	}
	defer func() { err = errors.Join(err, dbos.Shutdown(own, dbosTimeout)) }()
	if err := reset(ctx, d.pool, d.settle, `TRUNCATE dbos.workflow_status CASCADE`); err != nil {
		return nil, err
	}
	var done atomic.Int64
	dbos.RegisterWorkflow(own, func(dbos.Context, int) (int, error) {
		done.Add(1)
		return 0, nil
	}, dbos.WithWorkflowName(dbosQueue))
	began := time.Now()
	if err := d.enqueue(ctx, own, n); err != nil {
		return nil, fmt.Errorf("enqueue into DBOS: %w", err)
	}
	inserting := time.Since(began)
	working, err := d.work(ctx, own, n, &done)
	if err != nil {
		return nil, fmt.Errorf("work DBOS's workflows: %w", err)
	}
	return rates(n, inserting, working), nil
}

func (d *DBOS) enqueue(ctx context.Context, own dbos.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(dbosWriters)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			_, err := dbos.Enqueue[int](own, dbosQueue, dbosQueue, i)
			return err
		})
	}
	return group.Wait()
}

// work starts the queue, and counts what is completed in the database once every workflow has run.
func (d *DBOS) work(ctx context.Context, own dbos.Context, n int, done *atomic.Int64) (time.Duration, error) {
	_, err := dbos.RegisterQueue(own, dbosQueue, dbos.WithQueueBasePollingInterval(dbosPoll), dbos.WithWorkerConcurrency(dbosWorkers))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := dbos.Launch(own); err != nil {
		return 0, err
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if done.Load() >= int64(n) {
			var completed int
			err := d.pool.QueryRow(ctx, `SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'`).Scan(&completed)
			if err != nil || completed >= n {
				return time.Since(began), err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
