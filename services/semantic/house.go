package semantic

import (
	"bytes"
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
	// lookPortion is when a look begins with no further run: each may wait for its turn at the search index.
	lookPortion = 2 * time.Second
	// ledgerEvery is the time between two looks at the ledger's weeks.
	ledgerEvery = time.Minute
)

// look is one thing that is looked after again and again. Each has a goroutine of its own, so that none holds the others.
type look struct {
	name   string
	every  time.Duration
	within time.Duration
	at     func(context.Context) error
}

func (s *Semantic) looks() []look {
	// Who completes a run brings its documents to the index first, of which the largest takes a turn of its own.
	completing := lookTimeout
	if s.index != nil {
		completing = turnTimeout
	}
	all := []look{
		{"stored runs", houseEvery, completing, s.CompleteStored},
		{"checkpoints", houseEvery, lookTimeout, s.AdvanceStored},
		{"lost workers", houseEvery, lookTimeout, s.Abandon},
		{"lost documents", houseEvery, lookTimeout, s.FailLostInTransit},
		{"messages not taken", houseEvery, lookTimeout, s.FailNotTaken},
		{"leftovers", houseEvery, lookTimeout, s.Sweep},
		{"deleted connectors", houseEvery, lookTimeout, s.SweepDeletedConnectors},
		{"unnamed chunks", houseEvery, lookTimeout, s.SweepChunks},
		{"ledger", ledgerEvery, lookTimeout, s.KeepLedger},
	}
	if s.index != nil {
		return append(all, look{"search index", houseEvery, lookTimeout, s.index.Measure})
	}
	return append(all, look{"abandoned index", houseEvery, lookTimeout, s.SweepIndex})
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
		bounded, cancel := context.WithTimeout(ctx, l.within)
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
	return ofEach(ctx, "complete", &s.wholeAfter, s.lifecycle.WholeRuns, within(lookPortion), s.complete)
}

// AdvanceStored passes the checkpoints of open runs before which everything is stored.
func (s *Semantic) AdvanceStored(ctx context.Context) error {
	runs := map[uuid.UUID]uuid.UUID{}
	return ofEach(ctx, "advance", &s.checkpointedAfter, func(ctx context.Context, after uuid.UUID) ([]uuid.UUID, error) {
		tries, err := s.lifecycle.CheckpointedRuns(ctx, after)
		ids := make([]uuid.UUID, len(tries))
		for i, t := range tries {
			ids[i], runs[t.ID] = t.ID, t.Run
		}
		return ids, err
	}, within(lookPortion), func(ctx context.Context, try uuid.UUID) error { return s.advance(ctx, runs[try]) })
}

// within says whether a time is not over yet.
func within(d time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) < d }
}

// ofEach does something of each of several, page by page, as long as goesOn says so. One that cannot be moved holds up no other: a
// look that ends early keeps its place, and the next one goes on behind it, once round.
func ofEach(
	ctx context.Context, what string, place *uuid.UUID, list func(context.Context, uuid.UUID) ([]uuid.UUID, error), goesOn func() bool,
	do func(context.Context, uuid.UUID) error,
) error {
	var problems []error
	for began, round := *place, false; ; {
		found, err := list(ctx, *place)
		if err != nil {
			return errors.Join(append(problems, fmt.Errorf("ask what to %s: %w", what, err))...)
		}
		if len(found) == 0 {
			*place = uuid.UUID{}
			if round || began == *place {
				return errors.Join(problems...)
			}
			round = true
			continue
		}
		for _, id := range found {
			if !goesOn() {
				return errors.Join(problems...)
			}
			if round && bytes.Compare(id[:], began[:]) > 0 {
				*place = uuid.UUID{}
				return errors.Join(problems...)
			}
			*place = id
			err := do(ctx, id)
			if err == nil {
				continue
			}
			if len(problems) < maxProblems {
				problems = append(problems, fmt.Errorf("%s %s: %w", what, id, err))
			}
			if ctx.Err() != nil || isAway(err) {
				return errors.Join(problems...) // each of the others would end like this, or take a deadline of its own
			}
		}
	}
}

// isAway says that a server is away, not that it refuses one run.
func isAway(err error) bool {
	return errors.Is(err, errDown) || isWait(err) && !errors.Is(err, errIndex)
}

// maxProblems is how many problems a look writes down.
const maxProblems = 10
