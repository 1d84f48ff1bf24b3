package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	sweepTimeout = 5 * time.Second
	// sweepRuns is how many ended runs are taken at once, and sweepHeld for how long nobody else takes them.
	sweepRuns = 50
	sweepHeld = time.Minute
	// sweepRows is how many rows one statement removes, and sweepPage how many documents one looks at.
	sweepRows = 2000
	sweepPage = 1000
	// sweepShare is how long one run is swept before others have their turn.
	sweepShare = time.Second
	// sweepChanges is how many changes for an index that nobody keeps one statement removes.
	sweepChanges = 10_000
	// longSweep is how far the queue of unswept runs is counted.
	longSweep = 100_000
)

// errMore says that a sweep is not through: others have their turn, then it goes on.
var errMore = errors.New("more is left")

// Sweep removes what ended runs have left: messages that were counted, chunks that no document names, deleted documents,
// documents of an earlier configuration. It ends when nothing is left that can be swept now, or its time is over. One that
// cannot be swept waits, and holds up no other.
func (s *Semantic) Sweep(ctx context.Context) error {
	var problems []error
	for ctx.Err() == nil {
		var runs []dbgen.TakeUnsweptRow
		err := s.sweeping(ctx, func(ctx context.Context) (err error) {
			runs, err = s.queries.TakeUnswept(ctx, dbgen.TakeUnsweptParams{Held: sweepHeld, Batch: sweepRuns})
			return err
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for _, run := range runs {
			if err := s.sweepRun(ctx, run); err != nil && len(problems) < maxProblems {
				problems = append(problems, fmt.Errorf("sweep run %s: %w", run.RunID, err))
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

// sweepRun sweeps one ended run, or a share of it. An error says why it is not swept; it comes again later.
func (s *Semantic) sweepRun(ctx context.Context, run dbgen.TakeUnsweptRow) error {
	err := s.sweepSteps(ctx, run, time.Now().Add(sweepShare))
	if err == nil {
		return s.sweeping(ctx, func(ctx context.Context) error { return s.queries.Swept(ctx, run.RunID) })
	}
	p := dbgen.PostponeSweepParams{RunID: run.RunID}
	if more := errors.Is(err, errMore); !more {
		p.Attempts = run.Attempts + 1
		p.Pause = time.Duration(math.Min(math.Pow(2, float64(min(p.Attempts, 12))), 3600)) * time.Second
	} else {
		err = nil
	}
	return errors.Join(err, s.sweeping(ctx, func(ctx context.Context) error { return s.queries.PostponeSweep(ctx, p) }))
}

func (s *Semantic) sweepSteps(ctx context.Context, run dbgen.TakeUnsweptRow, until time.Time) error {
	if run.Outdated {
		err := s.sweepPages(ctx, run.ConnectorID, run.ConfigVersion, run.OutdatedAfter, until, func(ctx context.Context, behind string) error {
			return s.queries.KeepSweepPlace(ctx, dbgen.KeepSweepPlaceParams{RunID: run.RunID, Behind: behind})
		})
		if err != nil {
			return err
		}
	}
	steps := []func(context.Context) (int64, error){
		func(ctx context.Context) (int64, error) {
			n, err := s.queries.SweepLeftovers(ctx, dbgen.SweepLeftoversParams{ConnectorID: run.ConnectorID, Batch: sweepRows})
			return int64(n), err
		},
		func(ctx context.Context) (int64, error) {
			return s.queries.SweepSightings(ctx, dbgen.SweepSightingsParams{ConnectorID: run.ConnectorID, Batch: sweepRows})
		},
	}
	if try := run.TryID; try != nil {
		steps = append(steps,
			func(ctx context.Context) (int64, error) {
				return s.queries.SweepOrphanChunks(ctx, dbgen.SweepOrphanChunksParams{TryID: *try, Batch: sweepRows})
			},
			func(ctx context.Context) (int64, error) {
				return s.queries.SweepMessages(ctx, dbgen.SweepMessagesParams{TryID: *try, Batch: sweepRows})
			},
			func(ctx context.Context) (int64, error) { return 0, s.queries.SweepCheckpoints(ctx, *try) },
			func(ctx context.Context) (int64, error) { return 0, s.queries.SweepTries(ctx, *try) },
		)
	}
	for _, step := range steps {
		if err := s.batches(ctx, sweepRows, until, step); err != nil {
			return err
		}
	}
	return nil
}

// batches repeats a step until it removes less than a batch, or its time is over.
func (s *Semantic) batches(ctx context.Context, batch int64, until time.Time, step func(context.Context) (int64, error)) error {
	for {
		var removed int64
		err := s.sweeping(ctx, func(ctx context.Context) (err error) {
			removed, err = step(ctx)
			return err
		})
		switch {
		case err != nil:
			return err
		case removed < batch:
			return nil
		case time.Now().After(until):
			return errMore
		}
	}
}

// sweepPages removes a connector's documents of configurations before version, page by page, and keeps its place.
func (s *Semantic) sweepPages(
	ctx context.Context, connector int32, version int64, behind string, until time.Time, keep func(context.Context, string) error,
) error {
	for {
		err := s.sweeping(ctx, func(ctx context.Context) (err error) {
			behind, err = s.queries.SweepOutdated(ctx, dbgen.SweepOutdatedParams{
				ConnectorID: connector, ConfigVersion: version, Behind: behind, Page: sweepPage,
			})
			return err
		})
		if err != nil || behind == "" {
			return err
		}
		if err := s.sweeping(ctx, func(ctx context.Context) error { return keep(ctx, behind) }); err != nil {
			return err
		}
		if time.Now().After(until) {
			return errMore
		}
	}
}

// SweepDeletedConnectors removes the documents of connectors that are deleted, a share of each in turn. Those of one that was
// put back under the same id are of a later configuration, and stay.
func (s *Semantic) SweepDeletedConnectors(ctx context.Context) error {
	var problems []error
	after := dbgen.DeletedConnectorsParams{Page: sweepRuns}
	for ctx.Err() == nil {
		var gone []dbgen.DeletedConnectorsRow
		err := s.sweeping(ctx, func(ctx context.Context) (err error) {
			gone, err = s.queries.DeletedConnectors(ctx, after)
			return err
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for _, c := range gone {
			after.AfterID, after.AfterVersion = c.ID, c.ConfigVersion
			if err := s.sweepDeleted(ctx, c, time.Now().Add(sweepShare)); err != nil && !errors.Is(err, errMore) && len(problems) < maxProblems {
				problems = append(problems, fmt.Errorf("sweep connector %d: %w", c.ID, err))
			}
		}
		if len(gone) < sweepRuns {
			break
		}
	}
	return errors.Join(problems...)
}

func (s *Semantic) sweepDeleted(ctx context.Context, c dbgen.DeletedConnectorsRow, until time.Time) error {
	err := s.sweepPages(ctx, c.ID, c.ConfigVersion+1, c.SweptAfter, until, func(ctx context.Context, behind string) error {
		return s.queries.KeepDeletedPlace(ctx, dbgen.KeepDeletedPlaceParams{ID: c.ID, ConfigVersion: c.ConfigVersion, Behind: behind})
	})
	if err == nil {
		err = s.batches(ctx, sweepRows, until, func(ctx context.Context) (int64, error) {
			return s.queries.SweepSightings(ctx, dbgen.SweepSightingsParams{ConnectorID: c.ID, Batch: sweepRows})
		})
	}
	if err != nil {
		return err
	}
	return s.sweeping(ctx, func(ctx context.Context) error {
		return s.queries.ForgetDeletedConnector(ctx, dbgen.ForgetDeletedConnectorParams{ID: c.ID, ConfigVersion: c.ConfigVersion})
	})
}

// SweepIndex forgets an index that nobody keeps any more, with its changes, in batches.
func (s *Semantic) SweepIndex(ctx context.Context) error {
	err := s.sweeping(ctx, func(ctx context.Context) error { return s.queries.AbandonSearchIndex(ctx, abandonedAfter) })
	if err != nil {
		return err
	}
	err = s.batches(ctx, sweepChanges, time.Now().Add(sweepShare), func(ctx context.Context) (int64, error) {
		return s.queries.SweepSearchIndexChanges(ctx, sweepChanges)
	})
	if errors.Is(err, errMore) {
		return nil
	}
	return err
}

// KeepLedger makes the ledger's next weeks and drops those that are older than the retention. It also forgets worker processes
// that are long gone.
func (s *Semantic) KeepLedger(ctx context.Context) error {
	retention := time.Duration(s.config.LedgerRetentionDays) * 24 * time.Hour
	for more := true; more && ctx.Err() == nil; {
		err := s.sweeping(ctx, func(ctx context.Context) error {
			kept, err := s.queries.KeepLedger(ctx, retention)
			more = kept.Dropped > 0 || kept.Removed > 0
			return err
		})
		if err != nil {
			return fmt.Errorf("keep the ledger: %w", err)
		}
	}
	return s.sweeping(ctx, func(ctx context.Context) error {
		_, err := s.queries.ForgetWorkers(ctx, sweepRows)
		return err
	})
}

func (s *Semantic) sweeping(ctx context.Context, step func(context.Context) error) error {
	return deadline.Do(ctx, "semantic.sweep", sweepTimeout, step)
}
