package semantic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// retryPauses are the pauses before a message that failed is delivered again.
var retryPauses = repeat.Pauses{First: time.Second, Last: time.Minute}

// handleAlone handles a message that was delivered before. Its try is recorded in Postgres first, so that it counts even if the
// message ends the process. A try that ended in a wait is removed again.
func (s *Semantic) handleAlone(ctx context.Context, d delivery) {
	ctx, span := s.trace(ctx, []delivery{d})
	defer span.End()
	for try := range serverPauses.Tries(ctx) {
		mark := uuid.New()
		tries, err := s.beginTry(ctx, d, mark)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // the run is over
			acknowledge([]delivery{d})
			return
		case err != nil:
			handBack([]delivery{d}, pauseOrNone(ctx, serverPauses.Last))
			return
		case tries > s.config.MaxTries:
			s.giveUp(ctx, d, fmt.Errorf("given up after %d tries", tries-1), tries-1)
			return
		}
		err = s.process(ctx, []delivery{d})
		switch {
		case err == nil:
			s.held.remove(d.try.Run)
			acknowledge([]delivery{d})
			return
		case isWait(err) || isHeld(err) || ctx.Err() != nil:
			s.takeBackTry(ctx, d, mark)
			switch {
			case ctx.Err() != nil:
				handBack([]delivery{d}, 0)
				return
			case isHeld(err):
				s.held.add(d.try.Run)
				s.handBackHeld([]delivery{d})
				return
			}
			s.metrics.waited()
			s.logOf(d).Warn("a document waits for a server", "err", err, "pause", serverPauses.After(try))
		case tries >= s.config.MaxTries || errors.Is(err, errRefused):
			s.giveUp(ctx, d, err, tries)
			return
		default:
			span.Fail("not handled")
			s.logOf(d).Warn("a message could not be handled; it is tried again",
				"no", d.request.Number, "tries", tries, "err", err)
			handBack([]delivery{d}, s.pauseAfter(d, err, tries))
			return
		}
	}
	handBack([]delivery{d}, 0)
}

// pauseAfter is how long a failed message waits. Where storing took too long, other messages of its run wait as well, and the tries
// are minutes apart: a Postgres that is busy for a while makes no dead letters.
func (s *Semantic) pauseAfter(d delivery, err error, tries int) time.Duration {
	if !errors.Is(err, errSlow) {
		return retryPauses.After(tries + 1)
	}
	s.held.addFor(d.try.Run, s.slowPause)
	return s.slowPause * time.Duration(tries+1)
}

// beginTry records a try and returns the number of tries, this one included. It returns pgx.ErrNoRows where the message's run is
// over.
func (s *Semantic) beginTry(ctx context.Context, d delivery, mark uuid.UUID) (int, error) {
	var tries int32
	err := s.untilAnswered(ctx, d, func(ctx context.Context) (err error) {
		tries, err = deadline.Get(ctx, "semantic.begin_try", queryTimeout, func(ctx context.Context) (int32, error) {
			return s.queries.BeginTry(ctx, dbgen.BeginTryParams{RunID: d.try.Run, TryID: d.try.ID, No: d.request.Number, Mark: mark})
		})
		return err
	})
	return int(tries), err
}

func (s *Semantic) takeBackTry(ctx context.Context, d delivery, mark uuid.UUID) {
	err := s.untilAnswered(ctx, d, func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx)
		return deadline.Do(ctx, "semantic.take_back_try", time.Second, func(ctx context.Context) error {
			return s.queries.TakeBackTry(ctx, dbgen.TakeBackTryParams{TryID: d.try.ID, No: d.request.Number, Mark: mark})
		})
	})
	if err != nil {
		s.logOf(d).Debug("a try that was only a wait stays counted", "err", err)
	}
}

// giveUp moves a message to the dead letters: it is published there and acknowledged, then counted as stored with an error, then
// acknowledged here. If the process dies in between, the steps are repeated: a message may then have two dead letters, and nothing
// else changes.
func (s *Semantic) giveUp(ctx context.Context, d delivery, why error, tries int) {
	ctx, span := s.servers.Tracer.Start(ctx, d.try.Run, tracing.DeadLetter, tracing.Tries(tries))
	defer span.End()
	span.Fail("given up")
	if !s.publishDeadLetter(ctx, d, why, tries) {
		handBack([]delivery{d}, 0)
		return
	}
	err := s.untilAnswered(ctx, d, func(ctx context.Context) error { return s.countPoison(ctx, d, why) })
	switch {
	case err == nil:
		s.letters.forget(d.msg)
		acknowledge([]delivery{d})
	case isHeld(err) && ctx.Err() == nil:
		s.held.add(d.try.Run)
		s.handBackHeld([]delivery{d})
	default:
		s.logOf(d).Warn("a dead letter is not counted; it is delivered again", "err", err)
		handBack([]delivery{d}, pauseOrNone(ctx, serverPauses.Last))
	}
}

// publishDeadLetter publishes a message to the dead letters once, however often it is given up. It returns false where the service
// stops first.
func (s *Semantic) publishDeadLetter(ctx context.Context, d delivery, why error, tries int) bool {
	if s.letters.has(d.msg) {
		return true
	}
	for range serverPauses.Tries(ctx) {
		err := streams.DeadLetter(ctx, s.servers.Stream, d.msg, why, tries)
		if err == nil || errors.Is(err, streams.ErrDeadLettersFull) {
			s.metrics.deadLetters.Inc()
			s.metrics.messages.WithLabelValues(asDeadLetter).Inc()
			s.letters.add(d.msg)
			if err != nil {
				s.logOf(d).Error("a message was given up; its document keeps the reason, and there is no dead letter of it",
					"err", errors.Join(why, err))
				return true
			}
			s.logOf(d).Error("a message was given up; `echomind dlq list` shows it", "err", why)
			return true
		}
		s.logOf(d).Warn("a dead letter waits for the broker", "err", err)
	}
	return false
}

// countPoison counts a message that was given up, so that its run can end. A message without a session is ignored. A run that
// cannot count the message, or cannot end without it (sync completed), fails. No worker sends a negative number.
func (s *Semantic) countPoison(ctx context.Context, d delivery, why error) error {
	if d.request == nil || d.request.Number < 0 {
		return nil
	}
	if d.request.Number == 0 {
		return s.failRun(ctx, d, fmt.Errorf("sync completed could not be handled: %w", why))
	}
	it := newItem(d)
	it.poison = "given up: " + strings.ToValidUTF8(secret.Text(why.Error()), "\uFFFD") // Postgres takes nothing else
	if errors.Is(why, errEnvelope) {
		it.part, it.sourceID, it.note = nil, "", nil // its document is unknown
	}
	reached, err := s.storeItems(ctx, d.try, []*item{it})
	switch {
	case isWait(err), isHeld(err):
		return err
	case err != nil:
		return s.failRun(ctx, d, fmt.Errorf("message %d could not be counted: %w", d.request.Number, err))
	}
	return s.completeOrAdvance(ctx, d.try.Run, reached)
}

func (s *Semantic) failRun(ctx context.Context, d delivery, why error) error {
	err := s.lifecycle.Fail(ctx, d.try, lifecycle.Transient, why.Error())
	if errors.Is(err, lifecycle.ErrFenced) {
		return nil
	}
	if err == nil {
		s.logOf(d).Warn("the sync failed", "event", telemetry.Failed, "err", why)
	}
	return err
}
