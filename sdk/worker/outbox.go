package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
)

const publishTimeout = 5 * time.Second

// pauses are the pauses between tries while one of our own servers is away.
var pauses = repeat.Pauses{First: 100 * time.Millisecond, Last: 2 * time.Second}

// outbox numbers a run's messages and publishes many of them at once. While the broker is away, or the stream is full, a
// publish waits: only the end of its context ends it.
type outbox struct {
	ctx context.Context
	// handling is the handler's context. Where it ends alone, because the run took too long, no number is taken any more, and
	// messages that have a number are sent all the same.
	handling      context.Context
	try           lifecycle.Try
	connectorType string
	tracer        *tracing.Tracer
	stream        jetstream.JetStream
	gate          *gate
	clock         *workClock
	credit        *credit
	metrics       *metrics
	stall         *stall
	places        *semaphore.Weighted
	bytes         *semaphore.Weighted
	most          int64
	sending       sync.WaitGroup // the taken numbers whose messages are neither acknowledged nor given up
	toPublish     atomic.Int64   // how many numbered messages trySend was called for
	taken         atomic.Int64   // how many of them no longer wait for a place

	mu     sync.Mutex
	last   int64
	seq    uint64 // the stream's sequence of the last acknowledged message
	sealed bool
	broken error // why a taken number was never sent: the run cannot complete
	// unnumbered is why a message got no number: the run cannot complete, no other message gets one, and messages with a number
	// are sent all the same.
	unnumbered error
}

func newOutbox(
	ctx, handling context.Context, try lifecycle.Try, connectorType string, stream jetstream.JetStream, tracer *tracing.Tracer,
	gate *gate, clock *workClock, credit *credit, m *metrics, stall *stall, cfg Config,
) *outbox {
	return &outbox{
		ctx: ctx, handling: handling, try: try, connectorType: connectorType, tracer: tracer, stream: stream, gate: gate, clock: clock, metrics: m,
		credit: credit,
		stall:  stall,
		places: semaphore.NewWeighted(int64(cfg.MaxInFlight)),
		bytes:  semaphore.NewWeighted(cfg.MaxInFlightBytes),
		most:   cfg.MaxInFlightBytes,
	}
}

// number takes the next n numbers and returns the first, once the run has credit for them. Its error is errReturned once the
// outbox is sealed, and the cause where the run has ended. Where ctx ends before the message is numbered, the run cannot
// complete.
func (o *outbox) number(ctx context.Context, n int, weight int64) (int64, error) {
	for {
		first, more, err := o.take(ctx, n, weight)
		if more == nil {
			return first, err
		}
		if err := o.awaitCredit(ctx, more); err != nil {
			err = fmt.Errorf("wait until more of the sync is stored: %w", err)
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.sealed { // the run completes without it
				return 0, errReturned
			}
			o.unnumbered = cmp.Or(o.unnumbered, err)
			return 0, err
		}
	}
}

// take is number where there is credit; otherwise more is closed when another try is worthwhile. flush waits for the numbers
// that are taken here, so none is added to sending after that.
func (o *outbox) take(ctx context.Context, n int, weight int64) (first int64, more <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch cause := context.Cause(o.handling); {
	case cause != nil && !errors.Is(cause, context.Canceled): // a canceled run ended in order
		return 0, nil, cause
	case o.sealed:
		return 0, nil, errReturned
	case o.unnumbered != nil: // a checkpoint after the missing message would pass
		return 0, nil, o.unnumbered
	case ctx.Err() != nil:
		o.unnumbered = cmp.Or(o.unnumbered, context.Cause(ctx))
		return 0, nil, context.Cause(ctx)
	}
	if more := o.credit.roomOrWait(); more != nil {
		return 0, more, nil
	}
	first = o.last + 1
	o.last += int64(n)
	o.credit.charge(o.last, weight)
	o.sending.Add(n)
	return first, nil, nil
}

// seal ends the numbering: messages that a goroutine of the handler sends after the handler has returned would come after the
// total is sent.
func (o *outbox) seal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed = true
	o.credit.end()
}

// total is N: how many numbers were taken.
func (o *outbox) total() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// send takes n numbers and publishes the n messages that messages makes for them, from the first number on; weight is their
// weight together. It waits for credit and for places, not for acknowledgements. Where a number is taken and not sent, the run
// cannot complete, whatever its handler returns.
func (o *outbox) send(
	ctx context.Context, n int, weight int64, messages func(first int64) []*internalpb.DocumentProcessRequest,
) (err error) {
	first, err := o.number(ctx, n, weight)
	if err != nil {
		return err
	}
	sent := 0
	defer func() { // also after a panic that the handler recovers from
		if sent < n {
			o.markBroken(cmp.Or(err, errUnsent))
			o.sending.Add(sent - n)
		}
	}()
	for _, m := range messages(first) {
		if err := o.trySend(m); err != nil {
			return err
		}
		sent++
	}
	return nil
}

func (o *outbox) markBroken(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken == nil {
		o.broken = err
	}
}

// trySend publishes a numbered message. Where it returns no error, the message leaves sending in the end. Only the end of the
// outbox's context stops it: if a number were left out, semantic could not distinguish it from a lost message.
func (o *outbox) trySend(m *internalpb.DocumentProcessRequest) error {
	msg, err := o.encode(m)
	if err != nil {
		return err
	}
	size := min(int64(len(msg.Data)), o.most)
	o.toPublish.Add(1)
	defer o.taken.Add(1)
	if err := o.places.Acquire(o.ctx, 1); err != nil {
		return fmt.Errorf("wait for a place to publish: %w", err)
	}
	if err := o.bytes.Acquire(o.ctx, size); err != nil {
		o.places.Release(1)
		return fmt.Errorf("wait for room to publish: %w", err)
	}
	go func() {
		defer o.sending.Done()
		defer o.places.Release(1)
		defer o.bytes.Release(size)
		seq, err := o.publish(m.Number, msg)
		if err != nil {
			o.markBroken(err)
			return
		}
		o.metrics.published.Inc()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seq = max(o.seq, seq)
	}()
	return nil
}

// flush waits until every taken number is acknowledged, or never will be. The outbox is sealed. Its error is the cause where
// the outbox's context has ended.
func (o *outbox) flush() error {
	o.sending.Wait()
	if cause := context.Cause(o.ctx); cause != nil {
		return cause
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return cmp.Or(o.broken, o.unnumbered)
}

// isSent says whether every taken number is acknowledged. It is called after flush.
func (o *outbox) isSent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken == nil
}

// lastSequence is the stream's sequence of the last acknowledged message.
func (o *outbox) lastSequence() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seq
}

// publish repeats until the stream has acknowledged a message, and returns the message's sequence. A message whose
// acknowledgement was lost is stored twice: its number makes that harmless.
func (o *outbox) publish(no int64, msg *nats.Msg) (uint64, error) {
	began, span := time.Now(), o.trace(no, msg)
	defer span.End()
	var waiting wait
	defer waiting.end()
	reported := false
	defer func() {
		if reported {
			o.stall.ends()
		}
	}()
	for range pauses.Tries(o.ctx) {
		if err := o.gate.wait(o.ctx); err != nil {
			span.Fail("not acknowledged")
			return 0, err
		}
		sent := time.Now()
		ack, err := deadline.Get(o.ctx, "worker.publish", publishTimeout,
			func(ctx context.Context) (*jetstream.PubAck, error) {
				return o.stream.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
			})
		if err == nil {
			o.metrics.publishing.Observe(time.Since(began).Seconds())
			return ack.Sequence, nil
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			span.Fail("too large")
			return 0, fmt.Errorf("publish %d bytes: %w", len(msg.Data), err)
		}
		o.metrics.publishRetries.Inc()
		waiting.begin(o.clock, sent)
		if !reported && time.Since(began) > stallTold {
			reported = true
			o.stall.begins(began, err)
		}
	}
	span.Fail("not acknowledged")
	return 0, context.Cause(o.ctx)
}

func (o *outbox) encode(m *internalpb.DocumentProcessRequest) (*nats.Msg, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode document.process: %w", err)
	}
	if len(data) > topology.MaxMessageBytes {
		return nil, fmt.Errorf("document.process has %d bytes, more than %d", len(data), topology.MaxMessageBytes)
	}
	msg := nats.NewMsg(topology.DocumentSubject)
	msg.Data = data
	msg.Header.Set(topology.HeaderSession, m.ChunkingSession)
	msg.Header.Set(topology.HeaderTry, m.Try)
	msg.Header.Set(topology.HeaderNumber, strconv.FormatInt(m.Number, 10))
	msg.Header.Set(topology.HeaderType, o.connectorType)
	tracing.Send(o.ctx, msg.Header)
	return msg, nil
}
