package worker

import (
	"context"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
)

// ledgerReasons are what the ledger says of a failure.
var ledgerReasons = map[lifecycle.Failure]lifecycle.Reason{
	lifecycle.Transient: lifecycle.TransientFailure, lifecycle.Permanent: lifecycle.PermanentFailure,
	lifecycle.TooLong: lifecycle.TookTooLong, lifecycle.Relist: lifecycle.TransientFailure,
}

// trace begins the span of this worker's part of a run, below the one that its trigger comes from.
func (w *Worker) trace(
	ctx context.Context, msg jetstream.Msg, request *internalpb.ConnectorSyncRequest, session uuid.UUID,
) (context.Context, tracing.Span) {
	ctx, span := w.servers.Tracer.Start(tracing.Receive(ctx, msg.Headers()), session, tracing.Sync,
		tracing.Connector(request.ConnectorId), tracing.Type(w.connectorType))
	if meta, err := msg.Metadata(); err == nil {
		span.Set(tracing.Delivery(meta.NumDelivered))
	}
	return ctx, span
}

// trace begins the span of a message's publish, where it has one, and tells the message's receiver.
func (o *outbox) trace(no int64, msg *nats.Msg) tracing.Span {
	if !tracing.Recorded(no) {
		return tracing.Span{}
	}
	ctx, span := o.tracer.Start(o.ctx, o.try.Run, tracing.Publish, tracing.Number(no))
	tracing.Send(ctx, msg.Header)
	return span
}

// endFetch ends the handler's span.
func endFetch(span tracing.Span, run *Run, err error) {
	span.Set(tracing.Messages(run.outbox.total()))
	if !inOrder(err) {
		span.Fail("the handler returned an error")
	}
	span.End()
}
