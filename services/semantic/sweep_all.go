package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// DeletedSwept is what a round over the deleted connectors has done.
type DeletedSwept struct {
	// Whole is of how many nothing is left.
	Whole int64
	// More says that a share, or the time, was over first.
	More bool
	// Held says of some why they could not be swept. Each of those is left alone for a while, longer each time.
	Held []error
}

// SweepDeletedConnectors removes the documents of deleted connectors, a share of each in turn. A connector that was created again under the
// same id has a later configuration; its documents stay. A round that ends early keeps its place.
func (s *Semantic) SweepDeletedConnectors(ctx context.Context, until time.Time) (done DeletedSwept, err error) {
	place := &s.deletedAfter
	place.Page = sweepRuns
	for {
		var gone []dbgen.DeletedConnectorsRow
		err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
			gone, err = q.DeletedConnectors(ctx, *place)
			return err
		})
		if err != nil {
			return done, err
		}
		if len(gone) == 0 {
			place.AfterID, place.AfterVersion = 0, 0
			return done, nil
		}
		for _, c := range gone {
			place.AfterID, place.AfterVersion = c.ID, c.ConfigVersion
			err := s.sweepDeleted(ctx, c, time.Now().Add(sweepShare))
			switch {
			case err == nil:
				done.Whole++
			case errors.Is(err, errMore):
				done.More = true
			case postgres.Lost(err):
				return done, err
			case len(done.Held) < maxProblems:
				done.Held = append(done.Held, fmt.Errorf("sweep connector %d: %w", c.ID, err))
			}
			if ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
			if time.Now().After(until) {
				done.More = true
				return done, nil
			}
		}
	}
}

// sweepDeleted sweeps a deleted connector, or a share of it (errMore). Another error says why it is not swept.
func (s *Semantic) sweepDeleted(ctx context.Context, c dbgen.DeletedConnectorsRow, until time.Time) error {
	steps := []sweepStep{outdated(c.ID, c.ConfigVersion+1), sightings(c.ID)}
	at := readPlace(c.Place, len(steps))
	keep := func(ctx context.Context, q *dbgen.Queries, at sweepPlace) error {
		return q.KeepDeletedPlace(ctx, dbgen.KeepDeletedPlaceParams{ID: c.ID, ConfigVersion: c.ConfigVersion, Place: at.json()})
	}
	err := s.walk(ctx, &at, until, steps, keep)
	if err == nil {
		return s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) error {
			return q.ForgetDeletedConnector(ctx, dbgen.ForgetDeletedConnectorParams{ID: c.ID, ConfigVersion: c.ConfigVersion})
		})
	}
	if postgres.Lost(err) {
		return err // it is no fault of this connector
	}
	p := dbgen.PostponeDeletedConnectorParams{ID: c.ID, ConfigVersion: c.ConfigVersion, Place: at.json()}
	if !errors.Is(err, errMore) {
		p.Attempts = c.Attempts + 1
		p.Pause = min(10*time.Second<<min(p.Attempts, 9), time.Hour)
	}
	late := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) error { return q.PostponeDeletedConnector(ctx, p) })
	return errors.Join(err, late)
}

// SweepChunks removes the chunks that no document names any more, key by key, until a whole round finds none. A key that cannot be
// swept does not stop the others: a look that ends early keeps its place, and the next one continues behind it.
func (s *Semantic) SweepChunks(ctx context.Context) error {
	var problems []error
	at := &s.chunksAt
	for fromStart, removed := at.ID == 0, int32(0); ctx.Err() == nil; {
		var found dbgen.SweepChunksRow
		page := at.size(sweepKeys)
		err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
			found, err = q.SweepChunks(ctx, dbgen.SweepChunksParams{Behind: at.ID, Page: page, Batch: at.size(sweepRows)})
			return err
		})
		switch {
		case err == nil:
			at.Halved = max(0, at.Halved-1)
		case ctx.Err() != nil || len(problems) == maxProblems:
			return errors.Join(append(problems, err)...)
		case page > 1: // one of its keys holds up the page
			problems = append(problems, err)
			at.Halved++
			continue
		default:
			problems = append(problems, err)
			err = s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
				found.Next, err = q.PassUnnamedChunks(ctx, dbgen.PassUnnamedChunksParams{Behind: at.ID, Page: page})
				return err
			})
			if err != nil {
				return errors.Join(append(problems, err)...)
			}
		}
		removed += found.Removed
		if at.ID = found.Next; found.Next > 0 {
			continue
		}
		if fromStart && removed == 0 {
			break
		}
		fromStart, removed = true, 0
	}
	return errors.Join(problems...)
}

// SweepIndex removes an abandoned index with its changes, in batches.
func (s *Semantic) SweepIndex(ctx context.Context) error {
	err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		return q.DropSearchIndex(ctx, dbgen.DropSearchIndexParams{Handover: abandonedAfter, Abandoned: abandonedAfter})
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

// LedgerKept is what keeping the ledger has removed.
type LedgerKept struct {
	Weeks int64 `json:"weeks_dropped"`
	Rows  int64 `json:"rows_removed"`
}

// KeepLedger creates the ledger's next weeks and drops weeks that are older than the retention. errMore: its time is over first.
func (s *Semantic) KeepLedger(ctx context.Context, until time.Time) (kept LedgerKept, err error) {
	retention := time.Duration(s.config.LedgerRetentionDays) * 24 * time.Hour
	err = s.batches(ctx, 1, until, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
		one, err := q.KeepLedger(ctx, retention)
		if err == nil {
			kept.Weeks += int64(one.Dropped)
			kept.Rows += int64(one.Removed)
		}
		return int64(one.Dropped + one.Removed), err
	})
	if err != nil && !errors.Is(err, errMore) {
		err = fmt.Errorf("keep the ledger: %w", err)
	}
	return kept, err
}

// Forgotten is what was removed of workers that are gone.
type Forgotten struct {
	Workers int64 `json:"workers_forgotten"`
	Locks   int64 `json:"locks_forgotten"`
}

// ForgetWorkers removes rows of worker processes that ended long ago, and of locks that ran out long ago. errMore: its time is over first.
func (s *Semantic) ForgetWorkers(ctx context.Context, until time.Time) (gone Forgotten, err error) {
	err = s.batches(ctx, sweepRows, until, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
		one, err := q.ForgetWorkers(ctx, sweepRows)
		gone.Workers += int64(one.Workers)
		gone.Locks += int64(one.Locks)
		return int64(max(one.Workers, one.Locks)), err
	})
	return gone, err
}

// KeepAudit removes entries of the audit that are too old, tokens that have been over for as long, and keys of requests after a day.
func (s *Semantic) KeepAudit(ctx context.Context, until time.Time) (rows int64, err error) {
	retention := time.Duration(s.config.AuditRetentionDays) * 24 * time.Hour
	err = s.batches(ctx, 1, until, func(ctx context.Context, q *dbgen.Queries) (int64, error) {
		removed, err := q.KeepAudit(ctx, dbgen.KeepAuditParams{Retention: retention, Batch: sweepRows})
		rows += int64(removed)
		return int64(removed), err
	})
	if err != nil && !errors.Is(err, errMore) {
		err = fmt.Errorf("keep the audit: %w", err)
	}
	return rows, err
}

// batches repeats a statement until it removes less than a batch, or its time is over.
func (s *Semantic) batches(
	ctx context.Context, batch int64, until time.Time, remove func(ctx context.Context, q *dbgen.Queries) (int64, error),
) error {
	for {
		var removed int64
		err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
			removed, err = remove(ctx, q)
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
