package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// handleAlone handles a message that was delivered before. Its try is written down first, in Postgres, so that it
// counts even if it ends the process; a try that ended in a wait does not count.
func (s *Semantic) handleAlone(ctx context.Context, d delivery) {
	no := d.request.Number
	var tries int32
	err := s.untilAnswered(ctx, func(ctx context.Context) (err error) {
		tries, err = deadline.Get(ctx, "semantic.begin_try", queryTimeout, func(ctx context.Context) (int32, error) {
			return s.queries.BeginTry(ctx, dbgen.BeginTryParams{Session: d.session, No: no})
		})
		return err
	})
	if err != nil {
		handBack([]delivery{d}, 0)
		return
	}
	if int(tries) > s.config.MaxTries {
		s.giveUp(ctx, d, fmt.Errorf("given up after %d tries", tries-1), int(tries-1))
		return
	}
	err = s.untilAnswered(ctx, func(ctx context.Context) error { return s.process(ctx, []delivery{d}) })
	switch {
	case err == nil:
		acknowledge([]delivery{d})
	case ctx.Err() != nil:
		s.takeBackTry(ctx, d)
		handBack([]delivery{d}, 0)
	case int(tries) >= s.config.MaxTries:
		s.giveUp(ctx, d, err, int(tries))
	default:
		s.log.Warn("a message could not be handled; it is tried again", "session", d.session, "no", no,
			"tries", tries, "err", err)
		handBack([]delivery{d}, time.Duration(math.Pow(2, float64(tries)))*time.Second)
	}
}

func (s *Semantic) takeBackTry(ctx context.Context, d delivery) {
	err := deadline.Do(context.WithoutCancel(ctx), "semantic.take_back_try", time.Second, func(ctx context.Context) error {
		return s.queries.TakeBackTry(ctx, dbgen.TakeBackTryParams{Session: d.session, No: d.request.Number})
	})
	if err != nil {
		s.log.Debug("a try that was only a wait stays counted", "err", err)
	}
}

// giveUp moves a message to the dead letters: published there and acknowledged, then counted as stored with an
// error, then acknowledged here. Dying between any two of these repeats them, and changes nothing.
func (s *Semantic) giveUp(ctx context.Context, d delivery, why error, tries int) {
	for pause := pullPause; ; pause = min(2*pause, pullPauses) {
		err := topology.DeadLetter(ctx, s.servers.Stream, d.msg, why, tries)
		if err == nil {
			break
		}
		s.log.Warn("a dead letter waits for the broker", "err", err)
		if ctx.Err() != nil {
			handBack([]delivery{d}, 0)
			return
		}
		sleep(ctx, pause)
	}
	s.metrics.deadLetters.Inc()
	s.log.Error("a message was given up; look at the stream of dead letters", "session", d.session, "err", why)
	err := s.untilAnswered(ctx, func(ctx context.Context) error { return s.countPoison(ctx, d, why) })
	if err != nil {
		s.log.Warn("a dead letter is not counted; it is delivered again", "err", err)
		handBack([]delivery{d}, pullPauses)
		return
	}
	acknowledge([]delivery{d})
}

// countPoison counts a message that was given up, so that its run can end. One that names no session is nobody's.
func (s *Semantic) countPoison(ctx context.Context, d delivery, why error) error {
	if d.request == nil {
		request, session, ok := fromHeaders(d)
		if !ok {
			return nil
		}
		d.request, d.session = request, session
	}
	if d.request.Number == 0 {
		err := s.lifecycle.Fail(ctx, d.session, lifecycle.Transient, "sync completed could not be handled: "+why.Error())
		if errors.Is(err, lifecycle.ErrFenced) {
			return nil
		}
		return err
	}
	it := newItem(d)
	it.poison = "given up: " + why.Error()
	complete, err := s.storeItems(ctx, d.request, d.session, []*item{it})
	if err == nil && complete {
		return s.complete(ctx, d.session)
	}
	return err
}

// fromHeaders tells whose an undecodable message is.
func fromHeaders(d delivery) (*internalpb.DocumentProcessRequest, uuid.UUID, bool) {
	session, err := uuid.Parse(d.msg.Headers().Get(topology.HeaderSession))
	if err != nil {
		return nil, uuid.Nil, false
	}
	no, err := strconv.ParseInt(d.msg.Headers().Get(topology.HeaderNumber), 10, 64)
	if err != nil || no < 0 {
		return nil, uuid.Nil, false
	}
	return &internalpb.DocumentProcessRequest{ChunkingSession: session.String(), Number: no}, session, true
}
