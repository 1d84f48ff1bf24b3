package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

const (
	// houseEvery is the time between two looks of one kind.
	houseEvery = 5 * time.Second
	// lookTimeout bounds one look; what it leaves is the next one's.
	lookTimeout = 10 * time.Second
	// ledgerEvery is the time between two looks at the ledger's weeks.
	ledgerEvery = time.Minute
)

// look is one thing that is looked after again and again. Each has a goroutine of its own, so that none holds the others.
type look struct {
	name  string
	every time.Duration
	at    func(context.Context) error
}

func (s *Semantic) looks() []look {
	all := []look{
		{"stored runs", houseEvery, s.CompleteStored},
		{"checkpoints", houseEvery, s.AdvanceStored},
		{"lost workers", houseEvery, s.Abandon},
		{"lost documents", houseEvery, s.FailLostInTransit},
		{"leftovers", houseEvery, s.Sweep},
		{"deleted connectors", houseEvery, s.SweepDeletedConnectors},
		{"ledger", ledgerEvery, s.KeepLedger},
	}
	if s.index != nil {
		return append(all, look{"search index", houseEvery, s.index.Measure})
	}
	return append(all, look{"abandoned index", houseEvery, s.SweepIndex})
}

// keepHouse looks after all of them until ctx ends.
func (s *Semantic) keepHouse(ctx context.Context) error {
	var group errgroup.Group
	for _, l := range s.looks() {
		group.Go(func() error {
			s.keep(ctx, l)
			return nil
		})
	}
	return group.Wait()
}

func (s *Semantic) keep(ctx context.Context, l look) {
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	for {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, lookTimeout)
		err := l.at(bounded)
		cancel()
		s.metrics.looks.WithLabelValues(l.name).Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() == nil {
			s.log.Warn("a look ended early; it is repeated", "look", l.name, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// CompleteStored completes open runs whose documents are all stored: a process may have died between the two.
func (s *Semantic) CompleteStored(ctx context.Context) error {
	return s.ofEach(ctx, "complete", s.lifecycle.WholeRuns, s.complete)
}

// AdvanceStored passes the checkpoints of open runs before which everything is stored.
func (s *Semantic) AdvanceStored(ctx context.Context) error {
	runs := map[uuid.UUID]uuid.UUID{}
	return s.ofEach(ctx, "advance", func(ctx context.Context, after uuid.UUID) ([]uuid.UUID, error) {
		tries, err := s.lifecycle.CheckpointedRuns(ctx, after)
		ids := make([]uuid.UUID, len(tries))
		for i, t := range tries {
			ids[i], runs[t.ID] = t.ID, t.Run
		}
		return ids, err
	}, func(ctx context.Context, try uuid.UUID) error { return s.advance(ctx, runs[try]) })
}

// ofEach does something of each of several, page by page. One that cannot be moved holds up no other.
func (s *Semantic) ofEach(
	ctx context.Context, what string, list func(context.Context, uuid.UUID) ([]uuid.UUID, error),
	do func(context.Context, uuid.UUID) error,
) error {
	var problems []error
	for after, more := (uuid.UUID{}), true; more; {
		found, err := list(ctx, after)
		if err != nil {
			return errors.Join(append(problems, fmt.Errorf("ask what to %s: %w", what, err))...)
		}
		for _, id := range found {
			after = id
			err := do(ctx, id)
			if err == nil {
				continue
			}
			if problems = append(problems, fmt.Errorf("%s %s: %w", what, id, err)); isWait(err) && !errors.Is(err, errIndex) {
				return errors.Join(problems...) // Postgres: each of the others would take a deadline of its own
			}
		}
		more = len(found) > 0 && len(problems) < maxProblems
	}
	return errors.Join(problems...)
}

// maxProblems is how many problems a look writes down before it leaves the rest to the next.
const maxProblems = 10
