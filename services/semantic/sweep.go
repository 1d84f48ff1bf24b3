package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	sweepTimeout = 5 * time.Second
	// sweepWait is how long one statement waits for a row that another transaction holds.
	sweepWait = time.Second
	// sweepRuns is how many ended runs are taken at once, and sweepHeld how long no other process takes them.
	sweepRuns = 10
	sweepHeld = time.Minute
	// sweepRows is how many rows one statement removes, and sweepPage how many documents one statement reads.
	sweepRows = 2000
	sweepPage = 1000
	// sweepCheckpoints is how many checkpoints one statement removes, as they may be large; sweepListings is how many listings it
	// reads, and sweepKeys how many keys of chunks.
	sweepCheckpoints = 200
	sweepListings    = 100
	sweepKeys        = 100
	// sweepShare is how long one run is swept before other runs have their turn.
	sweepShare = time.Second
	// sweepChanges is how many changes of an abandoned index one statement removes.
	sweepChanges = 10_000
	// longSweep is up to where unswept runs are counted.
	longSweep = 100_000
)

var (
	// errMore says that a sweep is not finished: other runs have their turn, then it continues.
	errMore = errors.New("more is left")
	// errLeft says that a sweep passed over rows that another transaction holds.
	errLeft = errors.New("somebody holds what is to be removed")
)

// Sweep removes what ended runs have left: documents of an earlier configuration, counted messages, deleted documents, sightings.
// Chunks that no document names are left to SweepChunks. It ends when nothing is left that can be swept now, or when its time is
// over. A run that cannot be swept waits, and does not stop the others.
func (s *Semantic) Sweep(ctx context.Context) error {
	var problems []error
	var behind time.Time
	for ctx.Err() == nil {
		var runs []dbgen.TakeUnsweptRow
		err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
			runs, err = q.TakeUnswept(ctx, dbgen.TakeUnsweptParams{Behind: behind, Held: sweepHeld, Batch: sweepRuns})
			return err
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for _, run := range runs {
			if run.WasAt.After(behind) {
				behind = run.WasAt
			}
			if err := s.sweepRun(ctx, run); err != nil && len(problems) < maxProblems {
				problems = append(problems, fmt.Errorf("sweep run %s: %w", run.RunID, err))
			}
			if ctx.Err() != nil {
				return errors.Join(problems...)
			}
		}
		if len(runs) < sweepRuns {
			break
		}
	}
	if waiting, err := deadline.Get(ctx, "semantic.unswept", queryTimeout, func(ctx context.Context) (int64, error) {
		return s.queries.CountUnswept(ctx, longSweep)
	}); err == nil {
		s.metrics.unswept.Set(float64(waiting))
	}
	return errors.Join(problems...)
}

// sweepRun sweeps one ended run, or a share of it. An error says why it is not swept; the next sweep continues where this one
// ended.
func (s *Semantic) sweepRun(ctx context.Context, run dbgen.TakeUnsweptRow) error {
	at := readPlace(run.Place, len(runSteps(run)))
	err := s.sweepSteps(ctx, run, &at, time.Now().Add(sweepShare))
	if err == nil {
		return s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) error { return q.Swept(ctx, run.RunID) })
	}
	p := dbgen.PostponeSweepParams{RunID: run.RunID, Place: at.json()}
	if !errors.Is(err, errMore) {
		p.Attempts = run.Attempts + 1
		p.Pause = min(time.Second<<min(p.Attempts, 12), time.Hour)
	}
	if errors.Is(err, errMore) || errors.Is(err, errLeft) {
		err = nil
	}
	late := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) error { return q.PostponeSweep(ctx, p) })
	return errors.Join(err, late)
}

// sweepSteps takes a run's steps until they are through, or its share is over.
func (s *Semantic) sweepSteps(ctx context.Context, run dbgen.TakeUnsweptRow, at *sweepPlace, until time.Time) error {
	err := s.walk(ctx, at, until, runSteps(run), func(ctx context.Context, q *dbgen.Queries, at sweepPlace) error {
		return q.KeepSweepPlace(ctx, dbgen.KeepSweepPlaceParams{RunID: run.RunID, Place: at.json()})
	})
	if err == nil && at.Held {
		*at = sweepPlace{Step: stepLeftovers}
		return errLeft
	}
	return err
}

// sweeping runs one short transaction of a sweep, which waits only briefly for locks.
func (s *Semantic) sweeping(ctx context.Context, do func(ctx context.Context, q *dbgen.Queries) error) error {
	return deadline.Do(ctx, "semantic.sweep", sweepTimeout, func(ctx context.Context) error {
		bounds := postgres.Bounds{Lock: sweepWait, Statement: sweepTimeout, Idle: sweepTimeout, ByIndex: true}
		return postgres.TxBounded(ctx, s.servers.Pool, bounds, func(tx pgx.Tx) error { return do(ctx, s.queries.WithTx(tx)) })
	})
}
