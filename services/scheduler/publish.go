package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/sdk/wire"
)

// publishTimeout bounds how long a batch waits for its acknowledgements. SCHEDULER_LOST_GRACE_SECONDS must exceed it.
const publishTimeout = 5 * time.Second

// dispatcher publishes triggers and remembers whether the stream takes them. "Connected" is no evidence: a stream
// without a leader, or a full one, answers nothing or refuses.
type dispatcher struct {
	stream  jetstream.JetStream
	metrics *metrics
	log     *slog.Logger
	// taking: the last publish was acknowledged. While it is false one connector at a time is claimed, and only
	// after the stream has answered a question.
	taking atomic.Bool
}

func newDispatcher(stream jetstream.JetStream, m *metrics, log *slog.Logger) *dispatcher {
	return &dispatcher{stream: stream, metrics: m, log: log}
}

// ready says whether a claim makes sense now.
func (d *dispatcher) ready(ctx context.Context) bool {
	if d.taking.Load() {
		return true
	}
	err := deadline.Do(ctx, "scheduler.probe", queryTimeout, func(ctx context.Context) error {
		_, err := d.stream.Stream(ctx, topology.SyncStream)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = topology.EnsureStreams(ctx, d.stream)
	}
	return err == nil
}

// allowance is how many connectors a claim may take.
func (d *dispatcher) allowance() int {
	if d.taking.Load() {
		return 1 << 20
	}
	return 1
}

// publish sends a batch, many messages in flight, and waits for the acknowledgements. A message that is not
// acknowledged is left to the check for lost messages.
func (d *dispatcher) publish(ctx context.Context, connectorType string, batch []Trigger) {
	if len(batch) == 0 {
		return
	}
	subject, err := topology.SyncSubject(connectorType)
	if err != nil {
		d.log.Error("a claimed type has no subject; its constraint is gone", "err", err)
		return
	}
	late := time.NewTimer(publishTimeout)
	defer late.Stop()
	futures := make([]jetstream.PubAckFuture, 0, len(batch))
	sent := make([]*Trigger, 0, len(batch))
	var problem error
	for i := range batch {
		future, err := d.send(ctx, subject, connectorType, &batch[i])
		if err != nil {
			problem = err
			continue
		}
		futures, sent = append(futures, future), append(sent, &batch[i])
	}
	for i, future := range futures {
		select {
		case <-future.Ok():
			d.metrics.dispatched(connectorType, sent[i])
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
	d.taking.Store(problem == nil)
	if problem != nil {
		d.metrics.publishErrors.Inc()
		d.log.Warn("some triggers were not acknowledged; those that are lost are published again",
			"type", connectorType, "batch", len(batch), "err", problem)
	}
}

func (d *dispatcher) send(
	ctx context.Context, subject, connectorType string, t *Trigger,
) (jetstream.PubAckFuture, error) {
	data, err := message(connectorType, t)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(subject)
	msg.Data = data
	msg.Header.Set(topology.HeaderDispatchedAt, wire.FormatTime(t.DispatchedAt))
	msg.Header.Set(topology.HeaderSession, t.Session.String())
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(msg.Header))
	return d.stream.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
}

func message(connectorType string, t *Trigger) ([]byte, error) {
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
	return proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: t.ID, Type: wire.Type(connectorType), TypeName: connectorType, UserId: t.UserID,
		Scope: scope, ScopeId: t.ScopeID, Config: config, State: state, ChunkingSession: t.Session.String(),
		ConfigVersion: t.ConfigVersion, DueReason: t.Reason,
	})
}
