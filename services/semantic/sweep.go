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
	// sweepWait is how long one statement waits for a row that somebody holds.
	sweepWait = time.Second
	// sweepRuns is how many ended runs are taken at once, and sweepHeld for how long nobody else takes them.
	sweepRuns = 10
	sweepHeld = time.Minute
	// sweepRows is how many rows one statement removes, and sweepPage how many documents one looks at.
	sweepRows = 2000
	sweepPage = 1000
	// sweepCheckpoints is the same of checkpoints, which may be large, sweepTries of listings, and sweepKeys of keys of chunks.
	sweepCheckpoints = 200
	sweepListings    = 100
	sweepKeys        = 100
	// sweepShare is how long one run is swept before others have their turn.
	sweepShare = time.Second
	// sweepChanges is how many changes for an index that nobody keeps one statement removes.
	sweepChanges = 10_000
	// longSweep is how far the queue of unswept runs is counted.
	longSweep = 100_000
)

var (
	// errMore says that a sweep is not through: others have their turn, then it goes on.
	errMore = errors.New("more is left")
	// errLeft says that a sweep passed over what somebody holds.
	errLeft = errors.New("somebody holds what is to be removed")
)

// Sweep removes what ended runs have left: documents of an earlier configuration, messages that were counted, deleted documents,
// sightings; chunks that no document names it leaves to SweepChunks. It ends when nothing is left that can be swept now, or its time is over. One that
// cannot be swept waits, and holds up no other.
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

// sweepRun sweeps one ended run, or a share of it. An error says why it is not swept; it comes again later, and goes on where it was.
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

// sweeping is one transaction of a sweep, which waits for nobody for long.
func (s *Semantic) sweeping(ctx context.Context, do func(ctx context.Context, q *dbgen.Queries) error) error {
	return deadline.Do(ctx, "semantic.sweep", sweepTimeout, func(ctx context.Context) error {
		bounds := postgres.Bounds{Lock: sweepWait, Statement: sweepTimeout, Idle: sweepTimeout, ByIndex: true}
		return postgres.TxBounded(ctx, s.servers.Pool, bounds, func(tx pgx.Tx) error { return do(ctx, s.queries.WithTx(tx)) })
	})
}
