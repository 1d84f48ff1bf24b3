package worker_test

import (
	"context"
	"time"

	"github.com/echomind/sync/sdk/worker"
)

// A source that is listed page by page, over as many runs as it takes.
func ExampleRun_BeginListing() {
	type cursor struct {
		Listing bool   `json:"listing,omitempty"`
		Page    string `json:"page,omitempty"`
		Changes string `json:"changes,omitempty"`
	}
	// What the source can do.
	var (
		now  func() string                                                         // where its changes begin
		list func(page string) (items []worker.Document, next string)              // next is empty after the last page
		read func(ctx context.Context, item worker.Document) worker.Document       // with its content
		news func(ctx context.Context, run *worker.Run, since string) (end string) // puts and deletes what has changed
	)
	_ = func(ctx context.Context, run *worker.Run) error {
		var at cursor
		if err := run.State(&at); err != nil {
			return err
		}
		known, err := run.Known(ctx)
		if err != nil {
			return err
		}
		if at == (cursor{}) {
			run.BeginListing()
			at = cursor{Listing: true, Changes: now()} // before the first page: what happens later is in the changes
		}
		shown := map[string]bool{}
		for at.Listing {
			items, next := list(at.Page)
			var unchanged []string
			for _, item := range items {
				shown[item.SourceID] = true
				if known[item.SourceID].VersionToken == item.VersionToken {
					unchanged = append(unchanged, item.SourceID)
				} else if err := run.Put(ctx, read(ctx, item)); err != nil {
					return err
				}
			}
			run.Unchanged(len(unchanged))
			if err := run.Seen(ctx, unchanged...); err != nil {
				return err
			}
			if at.Page = next; next == "" {
				for id, k := range known {
					if k.Seen || shown[id] {
						continue
					}
					if err := run.Delete(ctx, id); err != nil {
						return err
					}
				}
				run.EndListing()
				at.Listing = false
			}
			if err := run.Checkpoint(ctx, at); err != nil {
				return err
			}
		}
		// Documents without a token have failed: they are behind every cursor, and are fetched again here.
		at.Changes = news(ctx, run, at.Changes)
		return run.SetState(at)
	}
}

// Of two places to embed texts, the first is one GPU that all runs share.
func ExampleFailover() {
	_ = func(ctx context.Context, run *worker.Run) error {
		embedder, err := worker.Failover(ctx, run,
			worker.Provider{Name: "ollama", Lock: "ollama:global", TTL: time.Minute, Probe: ping},
			worker.Provider{Name: "openai", Lock: "openai:team-7", Probe: ping})
		if err != nil {
			return err // both are locked: the run is put off
		}
		defer embedder.Free()
		return embed(embedder.Lock.Context(), embedder.Name, embedder.Lock.Epoch())
	}
}

func ping(context.Context) error { return nil }

func embed(context.Context, string, int64) error { return nil }
