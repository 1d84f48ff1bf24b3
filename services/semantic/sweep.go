package semantic

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	houseEvery   = 5 * time.Second
	sweepTimeout = 30 * time.Second
	sweepBatch   = 100
	// sweepDocuments is how many documents of a deleted connector one statement removes.
	sweepDocuments = 500
	// sweepChanges is how many changes for an index that nobody keeps one statement removes.
	sweepChanges = 10_000
)

// keepHouse completes runs whose completer died, passes checkpoints that nobody passed, and removes what ended runs and deleted connectors leave, until
// ctx ends.
func (s *Semantic) keepHouse(ctx context.Context) error {
	ticker := time.NewTicker(houseEvery)
	defer ticker.Stop()
	for {
		if err := s.CompleteStored(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("stored runs are not completed yet; tried again", "err", err)
		}
		if err := s.AdvanceStored(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("checkpoints are not passed yet; tried again", "err", err)
		}
		if s.index != nil {
			if err := s.index.Measure(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("what waits for the search index is not counted; tried again", "err", err)
			}
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the sweep ended early; tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// CompleteStored completes every open run whose documents are all stored.
func (s *Semantic) CompleteStored(ctx context.Context) error {
	runs, err := s.lifecycle.StoredRuns(ctx)
	if err != nil {
		return fmt.Errorf("ask for stored runs: %w", err)
	}
	return s.ofEach(runs, "complete", func(session uuid.UUID) error { return s.complete(ctx, session) })
}

// Sweep removes what nobody will read again: messages counted by ended runs, chunks that no document names, deleted
// documents, the documents of deleted connectors, the changes for an index that nobody keeps, and old history.
func (s *Semantic) Sweep(ctx context.Context) error {
	for full := true; full; {
		swept, err := s.sweepRuns(ctx)
		if err != nil {
			return err
		}
		full = swept == sweepBatch
	}
	if err := s.sweepDeletedConnectors(ctx); err != nil {
		return err
	}
	if err := s.sweepIndex(ctx); err != nil {
		return err
	}
	return s.sweeping(ctx, func(ctx context.Context) error {
		_, err := s.queries.SweepHistory(ctx, time.Duration(s.config.LedgerRetentionDays)*24*time.Hour)
		return err
	})
}

// sweepIndex forgets an index that nobody keeps any more, with its changes, in batches.
func (s *Semantic) sweepIndex(ctx context.Context) error {
	if s.index != nil {
		return nil
	}
	err := s.sweeping(ctx, func(ctx context.Context) error { return s.queries.AbandonSearchIndex(ctx, abandonedAfter) })
	for swept := int64(sweepChanges); err == nil && swept == sweepChanges; {
		err = s.sweeping(ctx, func(ctx context.Context) (err error) {
			swept, err = s.queries.SweepSearchIndexChanges(ctx, sweepChanges)
			return err
		})
	}
	return err
}

// sweepRuns sweeps a batch of ended runs and returns how many there were.
func (s *Semantic) sweepRuns(ctx context.Context) (int, error) {
	var runs []dbgen.UnsweptRunsRow
	err := s.sweeping(ctx, func(ctx context.Context) (err error) {
		runs, err = s.queries.UnsweptRuns(ctx, sweepBatch)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		if err := s.sweepRun(ctx, run); err != nil {
			return 0, fmt.Errorf("sweep run %s: %w", run.ID, err)
		}
	}
	return len(runs), nil
}

func (s *Semantic) sweepRun(ctx context.Context, run dbgen.UnsweptRunsRow) error {
	return s.each(ctx,
		func(ctx context.Context) error { _, err := s.queries.SweepOrphanChunks(ctx, run.ID); return err },
		func(ctx context.Context) error {
			_, err := s.queries.SweepDocuments(ctx, dbgen.SweepDocumentsParams{
				ConnectorID: run.ConnectorID, Before: run.Before,
			})
			return err
		},
		func(ctx context.Context) error { _, err := s.queries.SweepOutdated(ctx, run.ID); return err },
		func(ctx context.Context) error { return s.queries.SweepMessages(ctx, run.ID) },
		func(ctx context.Context) error { return s.queries.SweepCheckpoints(ctx, run.ID) },
		func(ctx context.Context) error { return s.queries.SweepSightings(ctx, run.ConnectorID) },
		func(ctx context.Context) error { return s.queries.SweepTries(ctx, run.ID) },
		func(ctx context.Context) error { return s.queries.MarkSwept(ctx, run.ID) },
	)
}

func (s *Semantic) sweepDeletedConnectors(ctx context.Context) error {
	var ids []int32
	err := s.sweeping(ctx, func(ctx context.Context) (err error) {
		ids, err = s.queries.DeletedConnectors(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.sweepConnector(ctx, id); err != nil {
			return fmt.Errorf("sweep connector %d: %w", id, err)
		}
	}
	return nil
}

// sweepConnector goes in batches, so that a large connector takes many short statements.
func (s *Semantic) sweepConnector(ctx context.Context, id int32) error {
	for swept := int64(1); swept > 0; {
		err := s.sweeping(ctx, func(ctx context.Context) (err error) {
			swept, err = s.queries.SweepConnectorDocuments(ctx, dbgen.SweepConnectorDocumentsParams{
				ConnectorID: id, Batch: sweepDocuments,
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.each(ctx,
		func(ctx context.Context) error { return s.queries.SweepSightings(ctx, id) },
		func(ctx context.Context) error { return s.queries.ForgetDeletedConnector(ctx, id) },
	)
}

func (s *Semantic) each(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := s.sweeping(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (s *Semantic) sweeping(ctx context.Context, step func(context.Context) error) error {
	return deadline.Do(ctx, "semantic.sweep", sweepTimeout, step)
}
