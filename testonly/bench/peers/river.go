// Package peers measures other job systems on the same Postgres: each with a database of its own, and tuned as its makers do.
package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	poolConns = 32
	// What River's own benchmark chooses: its defaults fetch ten times a second.
	riverBatch    = 5000
	riverWorkers  = 2000
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
)

func rates(n int, inserting, working time.Duration) []float64 {
	per := func(d time.Duration) float64 { return float64(n) / d.Seconds() }
	return []float64{per(inserting), per(working), per(inserting + working)}
}

// River is riverqueue/river.
type River struct {
	pool   *pgxpool.Pool
	settle func(context.Context) error
	log    *slog.Logger
}

type nothing struct{}

func (nothing) Kind() string { return "nothing" }

type worker struct {
	river.WorkerDefaults[nothing]
}

func (*worker) Work(context.Context, *river.Job[nothing]) error { return nil }

// NewRiver makes its tables in an empty database. settle lets each measurement begin behind a checkpoint.
func NewRiver(ctx context.Context, url string, settle func(context.Context) error, log *slog.Logger) (*River, error) {
	pool, err := open(ctx, url)
	if err != nil {
		return nil, err
	}
	r := &River{pool, settle, log}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: log})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("make River's tables: %w", err)
	}
	return r, nil
}

// Close ends the connections.
func (r *River) Close() { r.pool.Close() }

// Rates inserts n jobs, then works them; both is one after the other.
func (r *River) Rates(ctx context.Context, n int) ([]float64, error) {
	if err := reset(ctx, r.pool, r.settle, `TRUNCATE river_job`); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: r.log, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
	})
	if err != nil {
		return nil, fmt.Errorf("make River's client: %w", err)
	}
	began := time.Now()
	if err := r.insert(ctx, client, n); err != nil {
		return nil, fmt.Errorf("insert into River: %w", err)
	}
	inserting := time.Since(began)
	working, err := r.work(ctx, client, n)
	if err != nil {
		return nil, fmt.Errorf("work River's jobs: %w", err)
	}
	return rates(n, inserting, working), nil
}

func (r *River) insert(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	batch := make([]river.InsertManyParams, min(n, riverBatch))
	for i := range batch {
		batch[i].Args = nothing{}
	}
	for left := n; left > 0; left -= riverBatch {
		if _, err := client.InsertManyFast(ctx, batch[:min(left, riverBatch)]); err != nil {
			return err
		}
	}
	return nil
}

// work counts what is completed in the database, and not what the worker has seen.
func (r *River) work(ctx context.Context, client *river.Client[pgx.Tx], n int) (took time.Duration, err error) {
	events, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: n, Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled},
	})
	defer cancel()
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Stop(context.WithoutCancel(ctx))) }()
	for range n {
		select {
		case event := <-events:
			if event == nil || event.Kind != river.EventKindJobCompleted {
				return 0, errors.New("a job that does nothing was not completed")
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return time.Since(began), nil
}

func open(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	cfg.MaxConns = poolConns
	return pgxpool.NewWithConfig(ctx, cfg)
}

// reset leaves nothing of the last turn.
func reset(ctx context.Context, pool *pgxpool.Pool, settle func(context.Context) error, truncate string) error {
	if _, err := pool.Exec(ctx, truncate); err != nil {
		return fmt.Errorf("empty a peer's table: %w", err)
	}
	return settle(ctx)
}
