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
	url    string
	settle func(context.Context) error
}

// NewDBOS takes an empty database. settle lets each measurement begin behind a checkpoint.
func NewDBOS(url string, settle func(context.Context) error) *DBOS { return &DBOS{url, settle} }

// Rates enqueues n workflows that do nothing, then works them; both is one after the other.
func (d *DBOS) Rates(ctx context.Context, n int) (out []float64, err error) {
	pool, err := open(ctx, d.url)
	if err != nil {
		return nil, err
	}
	defer pool.Close() // its shutdown closes it, too
	own, err := dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: pool, ApplicationVersion: "1",
		Logger: slog.New(slog.DiscardHandler), // it tells its own shutdown as an error
	})
	if err != nil {
		return nil, fmt.Errorf("make the DBOS context: %w", err)
	}
	defer func() { err = errors.Join(err, dbos.Shutdown(own, dbosTimeout)) }()
	if err := reset(ctx, pool, d.settle, `TRUNCATE dbos.workflow_status CASCADE`); err != nil {
		return nil, err
	}
	var done atomic.Int64
	dbos.RegisterWorkflow(own, func(dbos.Context, int) (int, error) {
		done.Add(1)
		return 0, nil
	}, dbos.WithWorkflowName(dbosQueue))
	began := time.Now()
	if err := enqueue(ctx, own, n); err != nil {
		return nil, fmt.Errorf("enqueue into DBOS: %w", err)
	}
	inserting := time.Since(began)
	working, err := work(ctx, own, pool, n, &done)
	if err != nil {
		return nil, fmt.Errorf("work DBOS's workflows: %w", err)
	}
	return rates(n, inserting, working), nil
}

func enqueue(ctx context.Context, own dbos.Context, n int) error {
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
func work(ctx context.Context, own dbos.Context, pool *pgxpool.Pool, n int, done *atomic.Int64) (time.Duration, error) {
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
			err := pool.QueryRow(ctx, `SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'`).Scan(&completed)
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
