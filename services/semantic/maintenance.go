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
	// lookInterval is the time between two looks of one kind.
	lookInterval = 5 * time.Second
	// lookTimeout bounds one look. The next look continues what it leaves.
	lookTimeout = 10 * time.Second
	// lookPortion is after how long a look starts no further run.
	lookPortion = 2 * time.Second
)

// look is a task that is repeated for ever. Each has its own goroutine, so that none delays the others. What no promise hangs on is a
// system job instead: see systemJobs.
type look struct {
	name   string
	every  time.Duration
	within time.Duration
	run    func(context.Context) error
}

func (s *Semantic) looks() []look {
	all := []look{
		{"stored runs", lookInterval, lookTimeout, s.CompleteStored},
		{"checkpoints", lookInterval, lookTimeout, s.AdvanceStored},
		{"lost workers", lookInterval, lookTimeout, s.Abandon},
		{"lost documents", lookInterval, lookTimeout, s.FailLostInTransit},
		{"messages not taken", lookInterval, lookTimeout, s.FailNotTaken},
		{"leftovers", lookInterval, lookTimeout, s.Sweep},
		{"unnamed chunks", lookInterval, lookTimeout, s.SweepChunks},
		{"deleted connectors", lookInterval, lookTimeout, s.HurryOrphanSweep},
		{"events", lookInterval, lookTimeout, s.KeepEvents},
	}
	if s.index != nil {
		return append(all, look{"search index", lookInterval, lookTimeout, s.index.Measure})
	}
	return append(all, look{"abandoned index", lookInterval, lookTimeout, s.SweepIndex})
}

// maintain repeats all looks until ctx ends.
func (s *Semantic) maintain(ctx context.Context) error {
	var group errgroup.Group
	for _, l := range s.looks() {
		group.Go(func() error {
			s.repeatLook(ctx, l)
			return nil
		})
	}
	return group.Wait()
}

func (s *Semantic) repeatLook(ctx context.Context, l look) {
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	for {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, l.within)
		err := l.run(bounded)
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

// CompleteStored completes open runs whose documents are all stored: a process may have died between storing and completing. Where there
// is an index, it completes them once they can be found.
func (s *Semantic) CompleteStored(ctx context.Context) error {
	goesOn, complete := withinTime(lookPortion), s.complete
	if s.index != nil {
		inTime := goesOn
		goesOn = func() bool { return inTime() && !s.index.whole.isFull() }
		complete = func(_ context.Context, run uuid.UUID) error {
			s.index.notify(run)
			return nil
		}
	}
	return eachPaged(ctx, "complete", &s.wholeAfter, s.lifecycle.WholeRuns, goesOn, complete)
}

// AdvanceStored advances cursors to the checkpoints that have everything before them stored.
func (s *Semantic) AdvanceStored(ctx context.Context) error {
	runs := map[uuid.UUID]uuid.UUID{}
	return eachPaged(ctx, "advance", &s.checkpointedAfter, func(ctx context.Context, after uuid.UUID) ([]uuid.UUID, error) {
		tries, err := s.lifecycle.CheckpointedRuns(ctx, after)
		ids := make([]uuid.UUID, len(tries))
		for i, t := range tries {
			ids[i], runs[t.ID] = t.ID, t.Run
		}
		return ids, err
	}, withinTime(lookPortion), func(ctx context.Context, try uuid.UUID) error { return s.advance(ctx, runs[try]) })
}

// withinTime returns a function that says whether the time is not over yet.
func withinTime(d time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) < d }
}

// eachPaged calls do for each id that list returns, page by page, while goesOn allows it. An id that fails does not stop the
// others. A look that ends early keeps its place, and the next one continues behind it, once around the list.
func eachPaged(
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
				return errors.Join(problems...) // the other ids would fail in the same way, or take a deadline each
			}
		}
	}
}

// isAway says that a server is away, in contrast to a run that is refused.
func isAway(err error) bool {
	return isWait(err)
}

// maxProblems is how many problems one look reports.
const maxProblems = 10
