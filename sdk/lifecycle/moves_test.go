package lifecycle_test

import (
	"github.com/echomind/sync/sdk/lifecycle"
)

// moves are all that a try can ask for.
func (f *fixture) moves(c trip) map[string]func() error {
	return map[string]func() error{
		"pick up":   func() error { return f.PickUp(ctx, c.id, c.try, c.worker, lease) },
		"heartbeat": func() error { return f.beats(c) },
		"drain":     func() error { return f.Drain(ctx, c.try, 7) },
		"release":   func() error { return f.Release(ctx, c.try) },
		"fail":      func() error { return f.Fail(ctx, c.try, lifecycle.Transient, "no") },
		"complete":  func() error { _, err := f.Complete(ctx, c.try.Run); return err },
	}
}
