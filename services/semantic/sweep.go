package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
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

// Sweep removes what ended runs have left: messages that were counted, chunks that no document names, deleted documents,
// documents of an earlier configuration. It ends when nothing is left that can be swept now, or its time is over. One that
// cannot be swept waits, and holds up no other.
func (s *Semantic) Sweep(ctx context.Context) error {
	var problems []error
	for ctx.Err() == nil {
		var runs []dbgen.TakeUnsweptRow
		_, err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (_ int64, err error) {
			runs, err = q.TakeUnswept(ctx, dbgen.TakeUnsweptParams{Held: sweepHeld, Batch: sweepRuns})
			return 0, err
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for _, run := range runs {
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

// sweepRun sweeps one ended run, or a share of it. An error says why it is not swept; it comes again later.
func (s *Semantic) sweepRun(ctx context.Context, run dbgen.TakeUnsweptRow) error {
	err := s.sweepSteps(ctx, run, time.Now().Add(sweepShare))
	if err == nil {
		_, err = s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (int64, error) { return 0, q.Swept(ctx, run.RunID) })
		return err
	}
	p := dbgen.PostponeSweepParams{RunID: run.RunID}
	if !errors.Is(err, errMore) {
		p.Attempts = run.Attempts + 1
		p.Pause = min(time.Second<<min(p.Attempts, 12), time.Hour)
	}
	if errors.Is(err, errMore) || errors.Is(err, errLeft) {
		err = nil
	}
	_, late := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (int64, error) { return 0, q.PostponeSweep(ctx, p) })
	return errors.Join(err, late)
}

// sweepStep is one statement of a sweep, or a few in one transaction; it says how many rows it removed.
type sweepStep func(ctx context.Context, q *dbgen.Queries) (int64, error)

func (s *Semantic) sweepSteps(ctx context.Context, run dbgen.TakeUnsweptRow, until time.Time) error {
	connector := run.ConnectorID
	if run.Outdated {
		err := s.sweepPages(ctx, connector, run.ConfigVersion, run.OutdatedAfter, until, func(q *dbgen.Queries, behind string) error {
			return q.KeepSweepPlace(ctx, dbgen.KeepSweepPlaceParams{RunID: run.RunID, Behind: behind})
		})
		if err != nil {
			return err
		}
	}
	steps := []sweepStep{
		func(ctx context.Context, q *dbgen.Queries) (int64, error) {
			removed, err := q.SweepLeftovers(ctx, dbgen.SweepLeftoversParams{ConnectorID: connector, Batch: sweepRows})
			return int64(removed), err
		},
		func(ctx context.Context, q *dbgen.Queries) (int64, error) {
			return q.SweepSightings(ctx, dbgen.SweepSightingsParams{ConnectorID: connector, Batch: sweepRows})
		},
	}
	if try := run.TryID; try != nil {
		steps = append(steps,
			func(ctx context.Context, q *dbgen.Queries) (int64, error) {
				return q.SweepOrphanChunks(ctx, dbgen.SweepOrphanChunksParams{TryID: *try, Batch: sweepRows})
			},
			func(ctx context.Context, q *dbgen.Queries) (int64, error) {
				return q.SweepMessages(ctx, dbgen.SweepMessagesParams{TryID: *try, Batch: sweepRows})
			},
			func(ctx context.Context, q *dbgen.Queries) (int64, error) { return 0, q.SweepCheckpoints(ctx, *try) },
			func(ctx context.Context, q *dbgen.Queries) (int64, error) { return 0, q.SweepTries(ctx, *try) },
		)
	}
	steps = append(steps, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
		left, err := q.HoldsLeftovers(ctx, connector)
		if err == nil && left {
			err = errLeft
		}
		return 0, err
	})
	for _, step := range steps {
		if err := s.batches(ctx, sweepRows, until, step); err != nil {
			return err
		}
	}
	return nil
}

// batches repeats a step until it removes less than a batch, or its time is over.
func (s *Semantic) batches(ctx context.Context, batch int64, until time.Time, step sweepStep) error {
	for {
		removed, err := s.sweeping(ctx, step)
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

// sweepPages removes a connector's documents of configurations before version, page by page, and keeps its place with each.
func (s *Semantic) sweepPages(
	ctx context.Context, connector int32, version int64, behind string, until time.Time, keep func(q *dbgen.Queries, behind string) error,
) error {
	for {
		var next string
		_, err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (_ int64, err error) {
			next, err = q.SweepOutdated(ctx, dbgen.SweepOutdatedParams{
				ConnectorID: connector, ConfigVersion: version, Behind: behind, Page: sweepPage,
			})
			if err == nil && next != "" {
				err = keep(q, next)
			}
			return 0, err
		})
		if err != nil || next == "" {
			return err
		}
		if behind = next; time.Now().After(until) {
			return errMore
		}
	}
}

// SweepDeletedConnectors removes the documents of connectors that are deleted, a share of each in turn. Those of one that was
// put back under the same id are of a later configuration, and stay. A look that ends early keeps its place.
func (s *Semantic) SweepDeletedConnectors(ctx context.Context) error {
	var problems []error
	place := &s.deletedAfter
	place.Page = sweepRuns
	for {
		var gone []dbgen.DeletedConnectorsRow
		_, err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (_ int64, err error) {
			gone, err = q.DeletedConnectors(ctx, *place)
			return 0, err
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		if len(gone) == 0 {
			place.AfterID, place.AfterVersion = 0, 0
			return errors.Join(problems...)
		}
		for _, c := range gone {
			place.AfterID, place.AfterVersion = c.ID, c.ConfigVersion
			err := s.sweepDeleted(ctx, c, time.Now().Add(sweepShare))
			if err != nil && !errors.Is(err, errMore) && len(problems) < maxProblems {
				problems = append(problems, fmt.Errorf("sweep connector %d: %w", c.ID, err))
			}
			if ctx.Err() != nil {
				return errors.Join(problems...)
			}
		}
	}
}

func (s *Semantic) sweepDeleted(ctx context.Context, c dbgen.DeletedConnectorsRow, until time.Time) error {
	err := s.sweepPages(ctx, c.ID, c.ConfigVersion+1, c.SweptAfter, until, func(q *dbgen.Queries, behind string) error {
		return q.KeepDeletedPlace(ctx, dbgen.KeepDeletedPlaceParams{ID: c.ID, ConfigVersion: c.ConfigVersion, Behind: behind})
	})
	if err == nil {
		err = s.batches(ctx, sweepRows, until, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
			return q.SweepSightings(ctx, dbgen.SweepSightingsParams{ConnectorID: c.ID, Batch: sweepRows})
		})
	}
	if err == nil {
		_, err = s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
			return 0, q.ForgetDeletedConnector(ctx, dbgen.ForgetDeletedConnectorParams{ID: c.ID, ConfigVersion: c.ConfigVersion})
		})
	}
	return err
}

// SweepIndex forgets an index that nobody keeps any more, with its changes, in batches.
func (s *Semantic) SweepIndex(ctx context.Context) error {
	_, err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
		return 0, q.AbandonSearchIndex(ctx, abandonedAfter)
	})
	if err == nil {
		err = s.batches(ctx, sweepChanges, time.Now().Add(sweepShare), func(ctx context.Context, q *dbgen.Queries) (int64, error) {
			return q.SweepSearchIndexChanges(ctx, sweepChanges)
		})
	}
	if errors.Is(err, errMore) {
		return nil
	}
	return err
}

// KeepLedger makes the ledger's next weeks and drops those that are older than the retention. It also forgets worker processes
// that are long gone.
func (s *Semantic) KeepLedger(ctx context.Context) error {
	retention := time.Duration(s.config.LedgerRetentionDays) * 24 * time.Hour
	err := s.batches(ctx, 1, time.Now().Add(lookTimeout), func(ctx context.Context, q *dbgen.Queries) (int64, error) {
		kept, err := q.KeepLedger(ctx, retention)
		return int64(kept.Dropped + kept.Removed), err
	})
	if errors.Is(err, errMore) {
		err = nil
	} else if err != nil {
		err = fmt.Errorf("keep the ledger: %w", err)
	}
	_, forgetting := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
		_, err := q.ForgetWorkers(ctx, sweepRows)
		return 0, err
	})
	return errors.Join(err, forgetting)
}

// sweeping is one step of a sweep: a transaction that waits for nobody for long.
func (s *Semantic) sweeping(ctx context.Context, step sweepStep) (removed int64, err error) {
	err = deadline.Do(ctx, "semantic.sweep", sweepTimeout, func(ctx context.Context) error {
		bounds := postgres.Bounds{Lock: sweepWait, Statement: sweepTimeout, Idle: sweepTimeout}
		return postgres.TxBounded(ctx, s.servers.Pool, bounds, func(tx pgx.Tx) (err error) {
			removed, err = step(ctx, s.queries.WithTx(tx))
			return err
		})
	})
	return removed, err
}
