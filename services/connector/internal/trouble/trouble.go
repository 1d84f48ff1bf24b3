// Package trouble tells files that cannot be read from a service that is away.
package trouble

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Most is how many files in a row are taken for the files' own trouble before the service is asked.
const Most = 20

// Row counts the files in a row that could not be read for a reason that may not be theirs. Its zero value is ready.
type Row struct{ n atomic.Int64 }

// Ends says that a file was read.
func (r *Row) Ends() { r.n.Store(0) }

// Goes says that another file could not be read. A file that fails as it failed at an earlier sync is none: it says nothing of the
// service. After Most of them, and after each Most more, ask asks the service for what must be there, the folder or drive itself.
// Where that answers, the files are at fault, however many there are: each fails alone, and the sync goes on. Otherwise the sync ends.
func (r *Row) Goes(ctx context.Context, ask func(context.Context) error) error {
	if r.n.Add(1)%Most != 0 {
		return nil
	}
	if err := ask(ctx); err != nil {
		return fmt.Errorf("%d files in a row cannot be read, nor can the folder that is synced: %w", Most, err)
	}
	return nil
}

// Alone says that one thing could not be asked for, because of err. It returns nil where that thing fails alone and the sync goes on. ends
// tells which errors are about the account or the service as a whole.
func (r *Row) Alone(ctx context.Context, err error, ends func(error) bool, ask func(context.Context) error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ends(err):
		return err
	}
	if away := r.Goes(ctx, ask); away != nil {
		return fmt.Errorf("%w; the last: %w", away, err)
	}
	return nil
}
