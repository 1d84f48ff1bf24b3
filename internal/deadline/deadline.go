// Package deadline gives every call that leaves the process a deadline with a name.
package deadline

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error says which call had no answer in time. errors.Is takes it for context.DeadlineExceeded.
type Error struct {
	// Name is the name of the call, such as "scheduler.claim".
	Name string
	// After is the deadline.
	After time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("%s: no answer within %s", e.Name, e.After) }

func (e *Error) Unwrap() error { return context.DeadlineExceeded }

// times is how many times as long as it says a call has: see Stretch.
var times int64 = 1

// Stretch gives every call that many times as long. It is for programs of tests, before the first: a machine that is busy with tests stands
// still for seconds, and few tests are about a deadline.
func Stretch(by int) { times = int64(by) }

// Of is a deadline as it is kept here; for what keeps it elsewhere, such as a statement's in Postgres.
func Of(after time.Duration) time.Duration { return time.Duration(times * int64(after)) }

// Do runs call under a deadline, and returns an *Error where it passes. A deadline without a name, such as a driver's own for
// connecting, gets the call's name.
func Do(ctx context.Context, name string, after time.Duration, call func(context.Context) error) error {
	after = Of(after)
	late := &Error{Name: name, After: after}
	ctx, cancel := context.WithTimeoutCause(ctx, after, late)
	defer cancel()
	err := call(ctx)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return late
	}
	var named *Error
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &named) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// Get is Do for a call that returns a value.
func Get[T any](
	ctx context.Context, name string, after time.Duration, call func(context.Context) (T, error),
) (T, error) {
	var out T
	err := Do(ctx, name, after, func(ctx context.Context) (err error) {
		out, err = call(ctx)
		return err
	})
	return out, err
}
