package semantic

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
)

// serverPauses are the pauses while Postgres, NATS or the embedder does not answer.
var serverPauses = repeat.Pauses{First: 500 * time.Millisecond, Last: 5 * time.Second}

// delivery is one message that was pulled and checked.
type delivery struct {
	msg     jetstream.Msg
	request *internalpb.DocumentProcessRequest
	try     lifecycle.Try
}

// logOf is a logger for a delivery's run, if it names one.
func (s *Semantic) logOf(d delivery) *slog.Logger {
	if d.request == nil {
		return s.log
	}
	connectorType := d.msg.Headers().Get(topology.HeaderType)
	if connectorType == "" {
		connectorType = "unknown" // the worker does not use the kit
	}
	return telemetry.OfRun(s.log, d.request.ConnectorId, d.try.Run.String(), connectorType)
}

// consume pulls batches. It handles the small messages of each to their end before the next, and hands over the long ones.
func (s *Semantic) consume(ctx context.Context) error {
	return streams.Pull(ctx, s.servers.Stream, topology.DocumentStream, topology.DocumentConsumer(), s.config.Batch, s.log,
		func(batch []jetstream.Msg) error {
			s.handleApart(ctx, batch)
			return nil
		})
}

// Handle treats messages of document.process as Run does, for callers that pull messages themselves.
func (s *Semantic) Handle(ctx context.Context, batch []jetstream.Msg) { s.handle(ctx, batch) }

// handle finishes a batch: every message is acknowledged, given up, or left to be delivered again. A message that was delivered
// before is handled alone, so that a message that kills the process is told from the others of its batch.
func (s *Semantic) handle(ctx context.Context, batch []jetstream.Msg) {
	s.metrics.busy.Inc()
	defer s.metrics.busy.Dec()
	stop := keepAlive(ctx, batch)
	defer stop()
	for len(batch) > 0 {
		n := countFitting(batch)
		s.handleTogether(ctx, batch[:n])
		batch = batch[n:]
	}
}

// handleTogether finishes messages that fit in memory together.
func (s *Semantic) handleTogether(ctx context.Context, batch []jetstream.Msg) {
	var order []lifecycle.Try
	groups := map[lifecycle.Try][]delivery{}
	var alone []delivery
	for _, msg := range batch {
		if streams.ServersAnswer(msg) {
			s.metrics.messages.WithLabelValues(asServersAnswer).Inc()
			_ = msg.Ack()
			continue
		}
		d, err := decode(msg)
		meta, metaErr := msg.Metadata()
		switch {
		case s.held.contains(d.try.Run):
			s.handBackHeld([]delivery{d})
		case err != nil:
			s.giveUp(ctx, d, err, 1)
		case metaErr == nil && meta.NumDelivered > 1:
			alone = append(alone, d)
		default:
			if groups[d.try] == nil {
				order = append(order, d.try)
			}
			groups[d.try] = append(groups[d.try], d)
		}
	}
	for _, try := range order {
		for _, together := range portions(groups[try]) {
			if s.held.contains(try.Run) {
				s.handBackHeld(together)
				continue
			}
			s.handleFresh(ctx, together)
		}
	}
	for _, d := range alone {
		if s.held.contains(d.try.Run) {
			s.handBackHeld([]delivery{d})
			continue
		}
		s.handleAlone(ctx, d)
	}
}

// handleFresh stores the messages of one try together. Where a message makes that fail, each message is tried by itself.
func (s *Semantic) handleFresh(ctx context.Context, group []delivery) {
	ctx, span := s.trace(ctx, group)
	defer span.End()
	err := s.untilAnswered(ctx, group[0], func(ctx context.Context) error { return s.process(ctx, group) })
	switch {
	case err == nil:
		failpoint.At("semantic.handled")
		s.held.remove(group[0].try.Run)
		acknowledge(group)
	case ctx.Err() != nil:
		span.Set(tracing.Outcome("handed back"))
		handBack(group, 0)
	case isHeld(err):
		span.Set(tracing.Outcome("handed back"))
		s.held.add(group[0].try.Run)
		s.handBackHeld(group)
	case len(group) == 1 && errors.Is(err, errRefused):
		span.Fail("given up")
		s.giveUp(ctx, group[0], err, 1)
	case len(group) == 1:
		span.Fail("not handled")
		s.logOf(group[0]).Warn("a message could not be handled; it is tried again", "no", group[0].request.Number, "err", err)
		handBack(group, s.pauseAfter(group[0], err, 0))
	default:
		for i := range group {
			if s.held.contains(group[i].try.Run) {
				s.handBackHeld(group[i:])
				return
			}
			s.handleFresh(ctx, group[i:i+1])
		}
	}
}

// untilAnswered repeats a call while a server does not answer: a wait is not a failure.
func (s *Semantic) untilAnswered(ctx context.Context, d delivery, call func(context.Context) error) error {
	var err error
	for try := range serverPauses.Tries(ctx) {
		if err = call(ctx); !isWait(err) || ctx.Err() != nil {
			return err
		}
		s.metrics.waited()
		s.logOf(d).Warn("documents wait for a server", "err", err, "pause", serverPauses.After(try))
	}
	return err
}

// keepAlive tells the broker that messages are being handled. The returned function ends that.
func keepAlive(ctx context.Context, batch []jetstream.Msg) func() {
	ctx, cancel := context.WithCancel(ctx)
	var alive sync.WaitGroup
	alive.Go(func() {
		ticker := time.NewTicker(topology.AckWait / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for _, msg := range batch {
				_ = msg.InProgress() // refused where the message is acknowledged already
			}
		}
	})
	return func() { cancel(); alive.Wait() }
}

func acknowledge(group []delivery) {
	for _, d := range group {
		_ = d.msg.Ack() // after a lost acknowledgement the message is delivered again, and changes nothing
	}
}

func handBack(group []delivery, delay time.Duration) {
	for _, d := range group {
		_ = d.msg.NakWithDelay(delay)
	}
}

// handBackHeld hands back messages of a run whose rows another transaction holds.
func (s *Semantic) handBackHeld(group []delivery) {
	s.metrics.waited()
	for _, d := range group {
		pause := heldPause
		if meta, err := d.msg.Metadata(); err == nil {
			pause = min(heldPause*time.Duration(min(meta.NumDelivered, 100)), longestHeldPause)
		}
		_ = d.msg.NakWithDelay(pause)
	}
}

// pauseOrNone returns the pause, or zero while the service stops: another process may take the messages at once.
func pauseOrNone(ctx context.Context, pause time.Duration) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	return pause
}
