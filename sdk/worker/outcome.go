package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle"
)

// ErrPermanent is among what an error of Permanent wraps.
var ErrPermanent = errors.New("trying again cannot mend it")

type permanentError struct{ err error }

func (e *permanentError) Error() string   { return e.err.Error() }
func (e *permanentError) Unwrap() []error { return []error{ErrPermanent, e.err} }

// Permanent marks an error that trying again cannot mend (bad credentials, a source that is gone, a bad
// configuration): the connector stays in ERROR until its user changes or triggers it.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err: err}
}

type refusedError struct{ permanentError }

// Refused marks an error that is Permanent as long as this service has the settings that it has, such as the folders that it may read. A service
// with another Config.Reach tries the connector again, once.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{permanentError{err: err}}
}

// isRefused says whether an error is one of Refused.
func isRefused(err error) bool {
	_, is := errors.AsType[*refusedError](err)
	return is
}

// ErrRelist is among what an error of Relist wraps.
var ErrRelist = errors.New("the source is to be listed again")

type relistError struct{ err error }

func (e *relistError) Error() string   { return e.err.Error() }
func (e *relistError) Unwrap() []error { return []error{ErrRelist, e.err} }

// Relist marks an error after which what was listed so far is not to be believed: it fails the run like any other error, and the next
// begins with a State that has nothing but "place", if it had that: what finds the source again.
func Relist(err error) error {
	if err == nil {
		return nil
	}
	return &relistError{err: err}
}

type keepSentError struct{ err error }

func (e *keepSentError) Error() string { return e.err.Error() }
func (e *keepSentError) Unwrap() error { return e.err }

// KeepSent marks an error that fails the run like any other, but only once what the run has sent is stored and its checkpoints are passed.
// Of a run that fails otherwise, what is not stored yet is refused, and sent again by the next.
func KeepSent(err error) error {
	if err == nil {
		return nil
	}
	return &keepSentError{err: err}
}

type skippedError struct{ reason string }

func (e *skippedError) Error() string { return "skipped: " + e.reason }

// Skipped is what a handler returns that found nothing to do, with the reason for the ledger. A handler that
// returns nil without having sent anything is skipped as well.
func Skipped(reason string) error { return &skippedError{reason: reason} }

type postponedError struct {
	until time.Time // with the monotonic clock
	err   error
}

func (e *postponedError) Error() string { return e.err.Error() }
func (e *postponedError) Unwrap() error { return e.err }

// Postponed is what a handler returns whose source has asked to wait (Retry-After) for longer than a run should: the run ends, and
// the next one is due when the wait is over, counted from now, at least a second and at most a day. It is no failure, and counts
// towards nothing. err says who asked, without the time, such as "Microsoft asked us to wait": people are shown it with the time
// behind it, without what the error is wrapped in. What the run has sent is stored, and its checkpoints are passed, before the wait takes effect; what is
// behind the last checkpoint is sent again.
func Postponed(wait time.Duration, err error) error {
	if err == nil {
		err = errAskedToWait
	}
	return &postponedError{until: time.Now().Add(wait), err: err}
}

var errAskedToWait = errors.New("the source asked us to wait")

// errStopping ends the handlers that are still at work when the grace of a clean stop is over.
var errStopping = errors.New("the service is stopping")

// errTooLong ends a handler that worked longer than Config.MaxRunMinutes.
var errTooLong = errors.New("the sync took longer than it may")

// errReturned refuses what a handler's goroutine sends after the handler has returned.
var errReturned = errors.New("the handler has returned: the run takes no more documents")

// errUnsent breaks a run whose number was taken by a call that panicked before it had sent the message.
var errUnsent = errors.New("a message was given a number and never sent")

// outcome is what is done about a handler's end.
type outcome int

const (
	completes outcome = iota
	skips             // has sent nothing, and is complete
	done              // a job, whose end is written
	failsForNow
	failsForGood
	failsAndRelists
	tooLong
	cut             // too long, and what was sent is all in the stream
	failsWhenStored // what was sent is all in the stream
	released
	releasedAtWork // the handler has not returned
	postponed
	postponedWhenStored // what was sent is all in the stream
	abandoned
)

// outcomeOf is the one place that turns a handler's error into what is done about it. cause is the cause of the
// end of the run's context, nil while it has not ended.
func outcomeOf(err, cause error) outcome {
	switch {
	case errors.Is(cause, lifecycle.ErrFenced), errors.Is(err, lifecycle.ErrFenced):
		return abandoned
	case asPostponed(err) != nil:
		return postponed
	case errors.Is(cause, errStopping) && err != nil:
		return released
	case inOrder(err):
		return completes
	case errors.Is(err, ErrPermanent):
		return failsForGood
	case errors.Is(cause, errTooLong):
		return tooLong
	case errors.Is(err, ErrRelist):
		return failsAndRelists
	default:
		return failsForNow
	}
}

// asPostponed is what Postponed has made, or nil.
func asPostponed(err error) *postponedError {
	var wait *postponedError
	_ = errors.As(err, &wait)
	return wait
}

// kinds are what the database is told of a run that fails.
var kinds = map[outcome]lifecycle.Failure{
	failsForNow: lifecycle.Transient, failsForGood: lifecycle.Permanent, tooLong: lifecycle.TooLong,
	failsAndRelists: lifecycle.Relist, cut: lifecycle.TooLong, failsWhenStored: lifecycle.Transient,
}

// message is what the user reads of a failure.
func message(err, cause error) string {
	if errors.Is(cause, errTooLong) && errors.Is(err, context.Canceled) {
		return cause.Error()
	}
	return err.Error()
}

// inOrder says whether a handler's end lets its run complete.
func inOrder(err error) bool {
	var skipped *skippedError
	return err == nil || errors.As(err, &skipped)
}

func skipReason(err error) string {
	var skipped *skippedError
	if errors.As(err, &skipped) {
		return secret.Text(skipped.reason)
	}
	return "nothing had changed"
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return secret.Text(fmt.Sprintf("the handler panicked: %v", e.value))
}
