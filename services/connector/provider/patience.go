package provider

import (
	"cmp"
	"context"
	"time"

	"github.com/echomind/sync/internal/repeat"
)

// Limits bound what one request may take. The zero value of a field means its default.
type Limits struct {
	// Answer is how long the headers of an answer may take; a minute.
	Answer time.Duration
	// Idle is how long a body may stand still; half a minute.
	Idle time.Duration
	// Body is how long a body may take altogether; half an hour.
	Body time.Duration
	// LongestWait is the longest single wait that a provider may ask for; ten minutes. A longer one ends in an *Error.
	LongestWait time.Duration
	// Tries is how often a request is made that gets a broken answer or none; five times.
	Tries int
	// Throttles is how often one request may be told to wait; ten times.
	Throttles int
}

func (l Limits) orDefault() Limits {
	return Limits{
		Answer:      cmp.Or(max(l.Answer, 0), time.Minute),
		Idle:        cmp.Or(max(l.Idle, 0), 30*time.Second),
		Body:        cmp.Or(max(l.Body, 0), 30*time.Minute),
		LongestWait: cmp.Or(max(l.LongestWait, 0), 10*time.Minute),
		Tries:       cmp.Or(max(l.Tries, 0), 5),
		Throttles:   cmp.Or(max(l.Throttles, 0), 10),
	}
}

var (
	pauses = repeat.Pauses{First: 500 * time.Millisecond, Last: 16 * time.Second}
	// throttlePauses are the pauses where the provider says to wait but not how long, as "Usage limits" of the Drive API has it.
	throttlePauses = repeat.Pauses{First: time.Second, Last: 64 * time.Second}
)

const (
	// leastPostponed is the least wait after a provider has asked to wait too often without saying how long.
	leastPostponed = time.Minute
	// exhaustedFor is the least wait of an account that has no quota left today.
	exhaustedFor = 30 * time.Minute
)

// Waits is called before a wait that a provider has asked for, and over is called after it. It may refuse the wait: the source then
// gets its error.
type Waits func(ctx context.Context, wait time.Duration, asked string) (over func(), err error)

// sleep waits as a provider has asked. A refused wait is an accountError. Nil Waits are not called.
func (w Waits) sleep(ctx context.Context, clock Clock, wait time.Duration, asked string) error {
	if w == nil {
		return clock.Sleep(ctx, wait)
	}
	over, err := w(ctx, wait, asked)
	if err != nil {
		return accountError{err}
	}
	defer over()
	return clock.Sleep(ctx, wait)
}

// Clock is the time, so that tests can control it.
type Clock interface {
	Now() time.Time
	// Sleep returns early with the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// System is the wall clock.
type System struct{}

// Now is the time.
func (System) Now() time.Time { return time.Now() }

// Sleep waits.
func (System) Sleep(ctx context.Context, d time.Duration) error { return repeat.Sleep(ctx, d) }
