package provider

import (
	"context"
	"math/rand/v2"
	"time"
)

// Limits bound what one request may take. The zero value of a field means its default.
type Limits struct {
	// Answer is how long the headers of an answer may take; a minute.
	Answer time.Duration
	// Idle is how long a body may stand still; half a minute.
	Idle time.Duration
	// Body is how long a body may take altogether; half an hour.
	Body time.Duration
	// LongestWait is how long a provider's request to wait is waited for, at a time; ten minutes. A longer one is an *Error that
	// says so.
	LongestWait time.Duration
	// Tries is how often a request is made whose answer is broken, or does not come; five times.
	Tries int
	// Throttles is how often one request may be told to wait; ten times.
	Throttles int
}

func (l Limits) orDefault() Limits {
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	set(&l.Answer, time.Minute)
	set(&l.Idle, 30*time.Second)
	set(&l.Body, 30*time.Minute)
	set(&l.LongestWait, 10*time.Minute)
	if l.Tries <= 0 {
		l.Tries = 5
	}
	if l.Throttles <= 0 {
		l.Throttles = 10
	}
	return l
}

const (
	firstPause = 500 * time.Millisecond
	lastPause  = 16 * time.Second
	// firstThrottle doubles up to lastThrottle, as "Usage limits" of the Drive API has it, where the provider says to
	// wait but not how long.
	firstThrottle = time.Second
	lastThrottle  = 64 * time.Second
	// leastPostponed is how long nobody asks after a provider has said too often to wait, and never how long.
	leastPostponed = time.Minute
	// exhaustedFor keeps an account from asking again at once that has no quota left today.
	exhaustedFor = 30 * time.Minute
)

// backoff is the pause before try n+1, n from 1: doubled each time, and jittered, so that workers that failed together
// do not come back together.
func backoff(n int, first, last time.Duration) time.Duration {
	pause := first
	for i := 1; i < n && pause < last; i++ {
		pause *= 2
	}
	pause = min(pause, last)
	return pause/2 + time.Duration(rand.Int64N(int64(pause/2)+1))
}

// Waits is told that a provider is waited for.
type Waits func(ctx context.Context, wait time.Duration, asked string)

// Clock is time, for tests to hold.
type Clock interface {
	Now() time.Time
	// Sleep returns early with the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// System is the clock on the wall.
type System struct{}

// Now is the time.
func (System) Now() time.Time { return time.Now() }

// Sleep waits.
func (System) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
