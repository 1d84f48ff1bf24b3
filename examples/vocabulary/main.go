// Vocabulary is the care of a vocabulary: three jobs that are checked often and work rarely. Each has a condition, a query
// that is asked at each slot; a worker hears of the slot only where there is something to do.
//
//	job                      checked       works when
//	category_refresh         every 6 h     a model has made a category
//	vocab_consolidation      every 12 h    more than 50 types are active and more than 20 % inactive; then at each check, until 10 % are
//	epistemic_remeasurement  every hour    20 changes are not measured yet
//
// The tables, what is in them first, conditions and schedules are in setup.sql, which the program runs when it starts. The consolidation
// has to know whether it goes on or rests. That is a fact in a table of its own: the work writes it, and the condition reads it.
//
// Beside `make run` it is started by `make example-vocabulary`. Then
//
//	echomind connectors list
//	echomind schedule preview category_refresh     # the slots, and the condition that decides
//	echomind conditions try vocabulary_inactive --config '{"active_above":50,"begin_above":0.2,"stop_at":0.1}'
//	echomind connectors trigger vocab_consolidation    # by hand: nothing is asked
//	echomind runs --type vocab_consolidation
//
// A test has a week of it go by in seconds (TestAWeekOfAVocabulary): the 28 checks of category_refresh are two runs.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/sdk/worker"
)

//go:embed setup.sql
var setup string

func main() {
	// At the first signal the jobs take no new run and let those at work finish within SHUTDOWN_GRACE_SECONDS.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// The works of runs that may finish after the signal use it, too.
	pool, err := pgxpool.New(context.WithoutCancel(ctx), os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, setup); err != nil {
		return fmt.Errorf("run setup.sql: %w", err)
	}
	v := vocabulary{pool}
	group, ctx := errgroup.WithContext(ctx)
	for name, work := range map[string]work{
		"category_refresh":        v.refresh,
		"vocab_consolidation":     v.consolidate,
		"epistemic_remeasurement": v.measure,
	} {
		group.Go(func() error { return worker.ServeJob(ctx, name, worker.Job[struct{}]{Work: v.fenced(work)}) })
	}
	return group.Wait()
}

// vocabulary is in the database that the pool leads to.
type vocabulary struct{ pool *pgxpool.Pool }

// work is what a job does in one transaction.
type work func(ctx context.Context, tx pgx.Tx, run *worker.JobRun) (result any, err error)

// errNotOurs ends a run that has become somebody else's.
var errNotOurs = errors.New("the run is another worker's by now")

// fenced does the work only as long as the run is this worker's: a run may be claimed again, but no work is done by two.
func (v vocabulary) fenced(do work) func(context.Context, *worker.JobRun, struct{}) (any, error) {
	return func(ctx context.Context, run *worker.JobRun, _ struct{}) (result any, err error) {
		err = pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) error {
			var ours bool
			if err := tx.QueryRow(ctx, `SELECT moves.hold($1, $2)`, run.Try().Run, run.Try().ID).Scan(&ours); err != nil {
				return err
			}
			if !ours {
				return errNotOurs
			}
			result, err = do(ctx, tx, run)
			return err
		})
		return result, err
	}
}

// refresh stands for what a model would be asked about the categories that it has made.
func (v vocabulary) refresh(ctx context.Context, tx pgx.Tx, _ *worker.JobRun) (any, error) {
	tag, err := tx.Exec(ctx, `UPDATE vocabulary.categories SET llm_generated = false WHERE llm_generated`)
	return map[string]int64{"refreshed": tag.RowsAffected()}, err
}

// consolidate removes some of the inactive types, and writes down whether it goes on at the next check.
func (v vocabulary) consolidate(ctx context.Context, tx pgx.Tx, run *worker.JobRun) (any, error) {
	var cfg struct {
		ActiveAbove int     `json:"active_above"` // the condition's
		BeginAbove  float64 `json:"begin_above"`  // the condition's
		StopAt      float64 `json:"stop_at"`
		AtMost      int     `json:"at_most"`
	}
	if err := run.Config(&cfg); err != nil {
		return nil, err
	}
	tag, err := tx.Exec(ctx, `DELETE FROM vocabulary.types WHERE id IN (SELECT id FROM vocabulary.types WHERE NOT active ORDER BY id LIMIT $1)`, cfg.AtMost)
	if err != nil {
		return nil, err
	}
	var goesOn bool
	err = tx.QueryRow(ctx, `UPDATE vocabulary.consolidation SET goes_on =
			(SELECT count(*) FILTER (WHERE NOT active) > count(*) * $1::float8 FROM vocabulary.types) RETURNING goes_on`, cfg.StopAt).Scan(&goesOn)
	return map[string]any{"removed": tag.RowsAffected(), "goes_on": goesOn}, err
}

// measure stands for what is computed from the changes.
func (v vocabulary) measure(ctx context.Context, tx pgx.Tx, _ *worker.JobRun) (any, error) {
	tag, err := tx.Exec(ctx, `UPDATE vocabulary.changes SET measured = true WHERE id IN
		(SELECT id FROM vocabulary.changes WHERE NOT measured ORDER BY id LIMIT 1000)`)
	return map[string]int64{"measured": tag.RowsAffected()}, err
}
