package source

import (
	"context"
	"fmt"
	"sync/atomic"
)

// streakLimit is after how many unreadable items in a row the place is asked.
const streakLimit = 20

// failureStreak counts items in a row that could not be read for a reason that may concern the place.
type failureStreak struct{ n atomic.Int64 }

// reset notes that an item was read.
func (r *failureStreak) reset() { r.n.Store(0) }

// add notes that another item could not be read. An item that fails as it did at an earlier sync is not counted: it says nothing
// about the place. At every streakLimit-th item the place is asked for something that must be there. Where it answers, the items
// are at fault: each fails alone. Otherwise the sync ends.
func (r *failureStreak) add(ctx context.Context, ask func(context.Context) error) error {
	if r.n.Add(1)%streakLimit != 0 {
		return nil
	}
	if err := ask(ctx); err != nil {
		return fmt.Errorf("%d items in a row cannot be read, nor can what is synced: %w", streakLimit, err)
	}
	return nil
}

// FailAlone says that the request for one thing failed with err. It returns nil where that thing fails alone and the sync
// continues.
func (s *Sync) FailAlone(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.opts.Ends(err):
		return err
	}
	if away := s.streak.add(ctx, s.opts.Answers); away != nil {
		return fmt.Errorf("%w; the last: %v", away, err) //nolint:errorlint // it is about the place, not about this one
	}
	return nil
}
