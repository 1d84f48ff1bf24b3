// Package repeat has what retries need: pauses that double, and the wait that a response asks for.
package repeat

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"
)

// Pauses are the pauses between tries: the first, doubled each time, up to the last.
type Pauses struct{ First, Last time.Duration }

// After is the pause after so many failed tries, from 1.
func (p Pauses) After(tries int) time.Duration {
	pause := min(p.First, p.Last)
	for range tries - 1 {
		if pause <= 0 {
			return 0
		}
		if pause >= p.Last-pause {
			return p.Last
		}
		pause *= 2
	}
	return pause
}

// Scattered is After, shortened at random by up to a half, so that callers that failed together do not all try again together.
func (p Pauses) Scattered(tries int) time.Duration {
	pause := p.After(tries)
	return pause - time.Duration(rand.Int64N(int64(pause/2)+1))
}

// Tries counts tries from 1 and pauses between them; the loop's body leaves after a success. It ends when ctx ends: during a
// pause at once, and before the second try where ctx had ended before the first.
func (p Pauses) Tries(ctx context.Context) iter.Seq[int] {
	return func(yield func(int) bool) {
		for try := 1; yield(try); try++ {
			if Sleep(ctx, p.After(try)) != nil {
				return
			}
		}
	}
}

// Sleep waits, and returns early with ctx's cause when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
