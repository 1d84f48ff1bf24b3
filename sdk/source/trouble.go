package source

import (
	"context"
	"fmt"
	"sync/atomic"
)

// troubled is how many items in a row are taken for their own trouble before the place is asked.
const troubled = 20

// row counts the items in a row that could not be read for a reason that may not be theirs.
type row struct{ n atomic.Int64 }

// ends says that an item was read.
func (r *row) ends() { r.n.Store(0) }

// goesOn says that another could not be read. An item that fails as it failed at an earlier sync is none: it says nothing of the
// place. After so many, and after each so many more, the place is asked for what must be there. Where that answers, the items are at fault,
// however many there are: each fails alone. Otherwise the sync ends.
func (r *row) goesOn(ctx context.Context, ask func(context.Context) error) error {
	if r.n.Add(1)%troubled != 0 {
		return nil
	}
	if err := ask(ctx); err != nil {
		return fmt.Errorf("%d items in a row cannot be read, nor can what is synced: %w", troubled, err)
	}
	return nil
}

// Alone says that one thing could not be asked for, because of err. It returns nil where that thing fails alone and the sync goes on.
func (s *Sync) Alone(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.opts.Ends(err):
		return err
	}
	if away := s.trouble.goesOn(ctx, s.opts.Answers); away != nil {
		return fmt.Errorf("%w; the last: %v", away, err) //nolint:errorlint // it is about the place, not about this one
	}
	return nil
}
