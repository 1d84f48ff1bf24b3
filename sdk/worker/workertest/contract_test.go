package workertest_test

import (
	"context"
	"testing"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// kept is a Store whose syncs end by themselves.
type kept struct{ *workertest.Store }

func (k kept) Sync(t *testing.T, handle func(context.Context, workertest.Run) error) {
	t.Helper()
	if _, err := k.Known(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.End(handle(t.Context(), k.Store))
}

func (k kept) Committed(context.Context, string) error { return nil }
func (k kept) Reconfigure(*testing.T)                  { k.Store.Reconfigure() }

func (k kept) Full(_ *testing.T, full bool) {
	k.Refuses = func(worker.Document) bool { return full }
}

func (k kept) Said(_ *testing.T, id string) (title, url, mediaType string) {
	d := k.Docs()[id]
	return d.Title, d.URL, d.MediaType
}

func (k kept) Text(_ *testing.T, id string) (text, reason string) {
	d := k.Docs()[id]
	return workertest.Text(d), d.Err
}

func TestAStoreKeepsTheContract(t *testing.T) {
	workertest.Contract(t, func(*testing.T) workertest.Connector { return kept{workertest.New()} })
}
