package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/sdk/wire"
)

const (
	// publishTimeout bounds how long a batch waits for its acknowledgements.
	publishTimeout = 5 * time.Second
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

// dispatcher publishes triggers and remembers whether the stream takes them. "Connected" is no evidence: a stream
// without a leader answers nothing, and a full one refuses.
type dispatcher struct {
	stream  jetstream.JetStream
	tracer  *tracing.Tracer
	metrics *metrics
	log     *slog.Logger
	away    atomic.Bool  // the last question found no stream, or no room in it
	refused atomic.Int64 // size of the largest message of the last batch, where that was not acknowledged; else 0
}

func newDispatcher(stream jetstream.JetStream, tracer *tracing.Tracer, m *metrics, log *slog.Logger) *dispatcher {
	return &dispatcher{stream: stream, tracer: tracer, metrics: m, log: log}
}

// waiting says whether what is due waits for the stream.
func (d *dispatcher) waiting() bool { return d.away.Load() || d.refused.Load() > 0 }

// room asks the stream how many messages it takes: 0 while it is away or full; 1 after a publish that was not
// acknowledged, so that one connector at a time finds out. A stream that is gone is created again.
func (d *dispatcher) room(ctx context.Context) int {
	info, err := deadline.Get(ctx, "scheduler.probe", queryTimeout,
		func(ctx context.Context) (*jetstream.StreamInfo, error) {
			stream, err := d.stream.Stream(ctx, topology.SyncStream)
			if err != nil {
				return nil, err
			}
			return stream.CachedInfo(), nil
		})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		info, err = &jetstream.StreamInfo{}, topology.EnsureStreams(ctx, d.stream)
	}
	room := 0
	if err == nil {
		room = roomIn(info, d.refused.Load())
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
	if refused > 0 {
		room = min(room, 1)
	}
	return int(max(room, 0))
}

// publish sends a batch, many messages in flight, and waits for the acknowledgements. A message that is not
// acknowledged is left to the check for lost messages.
func (d *dispatcher) publish(ctx context.Context, batch []Trigger) {
	if len(batch) == 0 {
		return
	}
	late := time.NewTimer(publishTimeout)
	defer late.Stop()
	futures := make([]jetstream.PubAckFuture, 0, len(batch))
	sent := make([]*Trigger, 0, len(batch))
	largest := int64(1)
	var problem error
	defer endSpans(batch)
	for i := range batch {
		msg, err := message(d.trace(ctx, &batch[i]), &batch[i])
		if err != nil {
			telemetry.OfRun(d.log, batch[i].ID, batch[i].Session.String(), batch[i].Type).Error(
				"a trigger cannot be written; change the connector's config", "err", err)
			continue
		}
		largest = max(largest, int64(msg.Size()))
		future, err := d.stream.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
		if err != nil {
			problem = err
			continue
		}
		futures, sent = append(futures, future), append(sent, &batch[i])
	}
	failpoint.At("scheduler.published")
	for i, future := range futures {
		select {
		case <-future.Ok():
			d.metrics.dispatched(sent[i])
			telemetry.OfRun(d.log, sent[i].ID, sent[i].Session.String(), sent[i].Type).Info("dispatched", "event", telemetry.Triggered,
				"because", sent[i].Reason, "again", sent[i].claimedAt.IsZero())
			sent[i].span.End()
			continue
		case err := <-future.Err():
			problem = err
			continue
		case <-late.C:
			problem = &deadline.Error{Name: "scheduler.publish", After: publishTimeout}
		case <-ctx.Done():
			problem = context.Cause(ctx)
		}
		break
	}
	if problem == nil {
		d.refused.Store(0)
		return
	}
	d.refused.Store(largest)
	if ctx.Err() == nil {
		d.metrics.publishErrors.Inc()
		d.log.Warn("some triggers were not acknowledged; those that are lost are published again",
			"batch", len(batch), "err", problem)
	}
}

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
	config, err := wire.Struct(t.Config)
	if err != nil {
		return nil, wrap("config", err)
	}
	state, err := wire.Struct(t.State)
	if err != nil {
		return nil, wrap("state", err)
	}
	var listing *structpb.Struct
	if len(t.Listing) > 0 {
		if listing, err = wire.Struct(t.Listing); err != nil {
			return nil, wrap("listing", err)
		}
	}
	return proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: t.ID, Type: wire.Type(t.Type), TypeName: t.Type, UserId: t.UserID,
		Scope: scope, ScopeId: t.ScopeID, Config: config, State: state, ChunkingSession: t.Session.String(),
		ConfigVersion: t.ConfigVersion, DueReason: t.Reason, Listing: listing,
	})
}
