package connector

import (
	"context"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
)

// sink is a run whose documents' errors are cleaned: what people read of a file that failed may come from a library
// that puts the URL into it, and that URL opens the file to whoever has it.
type sink struct {
	*worker.Run
	cleaner *secret.Cleaner
}

// Put stores a document.
func (s sink) Put(ctx context.Context, d worker.Document) error {
	d.Err = s.cleaner.Text(d.Err)
	return s.Run.Put(ctx, d)
}
