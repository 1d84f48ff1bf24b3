package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// publishTimeout bounds how long a batch is sent, and waits for its acknowledgements.
	publishTimeout = 5 * time.Second
	// mostUnacknowledged is how many bytes of a batch's messages are in flight, and in memory; of each type.
	mostUnacknowledged = 2 << 20
	// probeEvery is how often the scheduler ticks while the stream takes nothing, so that it dispatches in the second in
	// which NATS is back. Nothing is claimed before NATS has answered.
	probeEvery = time.Second
	// unlimited is the room in a stream without a limit.
	unlimited = 1 << 20
	// triggerBytes is what a message is expected to take; one with a large configuration takes more.
	triggerBytes = 4 << 10
)

// errStream says that the broker, not Postgres, gave no answer.
var errStream = errors.New("the broker gave no answer")

// errUnwritable says that a trigger has no message.
var errUnwritable = errors.New("no message can be written of what it holds")

// dispatcher publishes triggers and remembers whether the stream takes them. "Connected" is no evidence: a stream
// without a leader answers nothing, and a full one refuses.
type dispatcher struct {
	stream  jetstream.JetStream
	queries *dbgen.Queries
	tracer  *tracing.Tracer
	metrics *metrics
	log     *slog.Logger
	within  time.Duration // how long a batch is sent, and waits for its acknowledgements
	away    atomic.Bool   // the last question found no stream, or no room in it
	mu      sync.Mutex
	refused map[string]int64 // the types whose last batch was not all acknowledged, with the size of its largest message
}

func newDispatcher(servers *connect.Servers, m *metrics, log *slog.Logger) *dispatcher {
	return &dispatcher{
		stream: servers.Stream, queries: dbgen.New(servers.Pool), tracer: servers.Tracer, metrics: m, log: log,
		within: publishTimeout, refused: map[string]int64{},
	}
}

// waiting says whether something that is due waits for the stream.
func (d *dispatcher) waiting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away.Load() || len(d.refused) > 0
}

// refusedOf is the size of the largest message of a type's last batch, where that was not acknowledged; else 0.
func (d *dispatcher) refusedOf(kind string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused[kind]
}

// judge remembers what has come of a batch of a type: the size of its largest message, where not all of it was acknowledged.
func (d *dispatcher) judge(kind string, largest int64, lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.refused, kind); lost {
		d.refused[kind] = largest
	}
}

// oneOf is n, but 1 at most after a batch of the type was not acknowledged, so that one connector at a time tries the stream.
func (d *dispatcher) oneOf(kind string, n int) int {
	if d.refusedOf(kind) > 0 {
		return min(n, 1)
	}
	return n
}

// room asks the stream how many messages of a type it takes: 0 while it is away or full. A stream that is gone is created again.
func (d *dispatcher) room(ctx context.Context, kind string) int {
	info, err := deadline.Get(ctx, "scheduler.probe", queryTimeout,
		func(ctx context.Context) (*jetstream.StreamInfo, error) {
			stream, err := d.stream.Stream(ctx, topology.SyncStream)
			if err != nil {
				return nil, err
			}
			return stream.CachedInfo(), nil
		})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		info, err = &jetstream.StreamInfo{}, streams.EnsureStreams(ctx, d.stream)
	}
	room := 0
	if err == nil {
		room = roomIn(info, d.refusedOf(kind))
	}
	if wasAway := d.away.Swap(room == 0); room == 0 && !wasAway && ctx.Err() == nil {
		d.log.Warn("the sync stream takes nothing; connectors stay due", "full", err == nil, "err", err)
	}
	return room
}

func roomIn(info *jetstream.StreamInfo, refused int64) int {
	room := int64(unlimited)
	if most := info.Config.MaxMsgs; most > 0 {
		room = most - int64(info.State.Msgs)
	}
	if most := info.Config.MaxBytes; most > 0 {
		size := min(max(triggerBytes, refused), max(most/2, 1))
		room = min(room, (most-int64(info.State.Bytes))/size)
	}
	return int(max(room, 0))
}

// publish sends a batch, many messages in flight, and waits for the acknowledgements. A message that is not
// acknowledged, or not sent in time, is left to the check for lost messages. What is claimed is sent also when ctx has ended; nobody waits
// for its acknowledgement then. Where a batch has several types each is sent by itself, so that no type waits for another that gets no answer.
func (d *dispatcher) publish(ctx context.Context, batch []Trigger) {
	var all sync.WaitGroup
	for _, some := range byType(batch) {
		all.Go(func() { d.publishType(ctx, some) })
	}
	all.Wait()
}

func byType(batch []Trigger) map[string][]Trigger {
	types := map[string][]Trigger{}
	for _, t := range batch {
		types[t.Type] = append(types[t.Type], t)
	}
	return types
}

func (d *dispatcher) publishType(ctx context.Context, batch []Trigger) {
	late, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), d.within, &deadline.Error{Name: "scheduler.publish", After: d.within})
	defer cancel()
	// What is small goes first: it does not wait until another's 64 KiB are written.
	slices.SortStableFunc(batch, func(a, b Trigger) int { return a.size() - b.size() })
	defer endSpans(batch)
	f := &flight{dispatcher: d, late: late}
	largest := int64(1)
	for i := range batch {
		t := &batch[i]
		for f.bytes > mostUnacknowledged && f.land(late) {
		}
		if late.Err() != nil {
			f.loses(t, context.Cause(late))
			continue
		}
		msg, err := message(d.trace(ctx, t), t)
		if err != nil {
			telemetry.OfRun(d.log, t.ID, t.Session.String(), t.Type).Error("a trigger cannot be written; change the connector's config", "err", err)
			f.answered(t, errUnwritable)
			continue
		}
		largest = max(largest, int64(msg.Size()))
		f.send(msg, t)
	}
	failpoint.At("scheduler.published")
	for f.land(ctx) {
	}
	d.judge(batch[0].Type, largest, f.lost > 0)
	if ctx.Err() != nil {
		return
	}
	if f.lost > 0 {
		d.metrics.publishErrors.Inc()
		d.log.Warn("some triggers were not acknowledged; those that are lost are published again",
			"type", batch[0].Type, "batch", len(batch), "lost", f.lost, "err", f.problem)
	}
	d.note(ctx, f.answers)
}

// flight is what of a batch is sent and not acknowledged.
type flight struct {
	dispatcher *dispatcher
	late       context.Context // ends when nothing is waited for any more
	sent       []sending
	bytes      int
	lost       int // how many were not sent, or not acknowledged
	problem    error
	answers    []answer // what is written down
}

type sending struct {
	trigger *Trigger
	future  jetstream.PubAckFuture
	bytes   int
}

func (f *flight) send(msg *nats.Msg, t *Trigger) {
	future, err := f.dispatcher.stream.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
	if err != nil {
		f.loses(t, err)
		return
	}
	f.bytes += msg.Size()
	f.sent = append(f.sent, sending{t, future, msg.Size()})
}

func (f *flight) loses(t *Trigger, why error) {
	f.lost, f.problem = f.lost+1, why
	f.answered(t, why)
}

// arrives is for a trigger that the broker has taken.
func (f *flight) arrives(t *Trigger) {
	d := f.dispatcher
	d.metrics.dispatched(t)
	telemetry.OfRun(d.log, t.ID, t.Session.String(), t.Type).Info("dispatched",
		"event", telemetry.Triggered, "because", t.Reason, "again", t.claimedAt.IsZero())
	t.span.End()
	f.answered(t, nil)
}

// land waits for the acknowledgement of the first message in flight; false: there is none, or no time left.
func (f *flight) land(ctx context.Context) bool {
	if len(f.sent) == 0 {
		return false
	}
	first := f.sent[0]
	select {
	case <-first.future.Ok():
		f.arrives(first.trigger)
	case err := <-first.future.Err():
		f.loses(first.trigger, err)
	case <-f.late.Done():
		return f.givesUp(context.Cause(f.late))
	case <-ctx.Done():
		return f.givesUp(context.Cause(ctx))
	}
	f.sent, f.bytes = f.sent[1:], f.bytes-first.bytes
	return true
}

// givesUp takes what is not acknowledged by now for lost.
func (f *flight) givesUp(why error) bool {
	for _, s := range f.sent {
		select {
		case <-s.future.Ok():
			f.arrives(s.trigger)
		case err := <-s.future.Err():
			f.loses(s.trigger, err)
		default:
			f.loses(s.trigger, why)
		}
	}
	f.sent = nil
	return false
}

// size is how much of a trigger's message its users decide.
func (t Trigger) size() int { return len(t.Config) + len(t.State) + len(t.Listing) }

// message writes a trigger without a Nats-Msg-Id: a duplicate is harmless, while the stream's duplicate window
// survives a purge and would swallow the repeat that is wanted then.
func message(ctx context.Context, t *Trigger) (*nats.Msg, error) {
	subject, err := topology.SyncSubject(t.Type)
	if err != nil {
		return nil, err
	}
	data, err := encode(t)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(subject)
	msg.Data = data
	msg.Header.Set(topology.HeaderDispatchedAt, wire.FormatTime(t.DispatchedAt))
	msg.Header.Set(topology.HeaderSession, t.Session.String())
	tracing.Send(ctx, msg.Header)
	return msg, nil
}

func encode(t *Trigger) ([]byte, error) {
	scope, err := wire.Scope(t.Scope)
	if err != nil {
		return nil, err
	}
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: t.ID, Type: wire.Type(t.Type), TypeName: t.Type, UserId: t.UserID,
		Scope: scope, ScopeId: t.ScopeID, ChunkingSession: t.Session.String(),
		ConfigVersion: t.ConfigVersion, DueReason: t.Reason,
	})
	if err != nil {
		return nil, err
	}
	for _, o := range []struct {
		field  protoreflect.Name
		object []byte
	}{{"config", t.Config}, {"state", t.State}, {"listing", t.Listing}} {
		encoded, err := wire.EncodeStruct(o.object)
		if err != nil {
			return nil, wrap(string(o.field), err)
		}
		if len(o.object) > 0 {
			number := (*internalpb.ConnectorSyncRequest)(nil).ProtoReflect().Descriptor().Fields().ByName(o.field).Number()
			data = protowire.AppendBytes(protowire.AppendTag(data, number, protowire.BytesType), encoded)
		}
	}
	return data, nil
}
