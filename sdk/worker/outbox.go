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

// pauses are those between tries while a server of ours is away.
var pauses = repeat.Pauses{First: 100 * time.Millisecond, Last: 2 * time.Second}

// outbox numbers a run's messages and publishes many of them at once. A broker that is away, or a stream that
// is full, is waited for: only the end of its context ends a publish.
type outbox struct {
	ctx context.Context
	// handling is the handler's context: where it ends alone, because the run took too long, no number is taken any more, and what
	// has one is sent all the same.
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
	sending       sync.WaitGroup // one for each number that was taken, until it is acknowledged or the run is broken
	toPublish     atomic.Int64   // how many numbered messages have come to be published
	taken         atomic.Int64   // how many of them wait for no place any more

	mu     sync.Mutex
	last   int64
	seq    uint64 // the place in the stream of the last message that was acknowledged
	sealed bool
	broken error // a number that was taken and never sent: the run can no longer complete
	// unnumbered is why a message has no number: the run cannot complete, no other message gets one, and what has one is sent all the same.
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

// number takes the next n numbers and returns the first, once the run has credit for them. It returns errReturned once the outbox is
// sealed, and why the run has ended where it has. A run whose message cannot be numbered because ctx ends cannot complete.
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

// take is number where there is credit; else more is closed when it is worth another try. flush waits for what is taken here, so
// nothing is added to sending once it waits.
func (o *outbox) take(ctx context.Context, n int, weight int64) (first int64, more <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch cause := context.Cause(o.handling); {
	case cause != nil && !errors.Is(cause, context.Canceled): // that is a run which ended in order
		return 0, nil, cause
	case o.sealed:
		return 0, nil, errReturned
	case o.unnumbered != nil: // a checkpoint behind what is missing would pass
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

// seal ends the numbering: what a goroutine of the handler's sends after the handler has returned would come after
// the total is told.
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

// send takes n numbers and publishes the n messages that are made for them; first is the first one's, and weight what they weigh together. It waits for credit
// and for places, not for acknowledgements. Where a number is taken and not sent, the run cannot complete, whatever its handler makes of it.
func (o *outbox) send(
	ctx context.Context, n int, weight int64, messages func(first int64) []*internalpb.DocumentProcessRequest,
) (err error) {
	first, err := o.number(ctx, n, weight)
	if err != nil {
		return err
	}
	sent := 0
	defer func() { // also after a panic, which the handler may recover from
		if sent < n {
			o.breaks(cmp.Or(err, errUnsent))
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

func (o *outbox) breaks(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken == nil {
		o.broken = err
	}
}

// trySend publishes a numbered message. Where it returns no error, it takes the message out of sending in the end. Nothing but the end of the
// outbox's context stops it: without a message that has its number, what comes after would never be told apart from what was lost.
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
			o.breaks(err)
			return
		}
		o.metrics.published.Inc()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seq = max(o.seq, seq)
	}()
	return nil
}

// flush waits until every number that was taken is acknowledged, or never will be. The outbox is sealed. It returns why the outbox's context ended where it ended before.
func (o *outbox) flush() error {
	o.sending.Wait()
	if cause := context.Cause(o.ctx); cause != nil {
		return cause
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return cmp.Or(o.broken, o.unnumbered)
}

// isSent says whether every number that was taken is acknowledged. It is flushed.
func (o *outbox) isSent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken == nil
}

// lastPlace is the place in the stream of the last message that was acknowledged.
func (o *outbox) lastPlace() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seq
}

// publish repeats until the stream has acknowledged, and returns the message's place in it. A message that was
// stored though its acknowledgement was lost is stored twice: its number makes that harmless.
func (o *outbox) publish(no int64, msg *nats.Msg) (uint64, error) {
	began, span := time.Now(), o.trace(no, msg)
	defer span.End()
	var waiting wait
	defer waiting.end()
	told := false
	defer func() {
		if told {
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
		if !told && time.Since(began) > stallTold {
			told = true
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
