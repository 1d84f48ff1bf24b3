package files

import (
	"context"
	"time"

	"github.com/echomind/sync/internal/repeat"
)

// Matching is paced by its steps, and not by the clock, so that other work on the machine does not make a listing rest. Each
// name allows more steps than patterns that people write take for it. A listing that needs more gets about a fifth of a
// processor.
const (
	stepsOfName = 30_000
	stepsOfRest = 2_000_000 // 10 to 20 ms of a processor
	restTime    = 50 * time.Millisecond
)

// pace counts the steps of one listing. It is not safe for concurrent use.
type pace struct {
	left int // steps until the next rest
	rest func(context.Context) error
}

func newPace() *pace { return &pace{left: stepsOfRest, rest: rest} }

// name begins another name. Unused steps of a name are kept for the next ones, up to those of one rest.
func (p *pace) name() { p.left = min(p.left+stepsOfName, stepsOfRest) }

// take counts steps, and rests when none are left. Its error is ctx's.
func (p *pace) take(ctx context.Context, steps int) error {
	p.left -= steps
	if p.left > 0 {
		return nil
	}
	p.left += stepsOfRest
	return p.rest(ctx)
}

func rest(ctx context.Context) error { return repeat.Sleep(ctx, restTime) }
