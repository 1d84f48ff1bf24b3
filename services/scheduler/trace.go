package scheduler

import (
	"context"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/tracing"
)

// trace begins a trigger's span: the first span of its run's trace, from the claim on; for a repeat, a span below that.
func (d *dispatcher) trace(ctx context.Context, t *Trigger) context.Context {
	if d.tracer == nil {
		return ctx
	}
	about := []tracing.Attribute{tracing.Connector(t.ID), tracing.Type(t.Type), tracing.DueReason(t.Reason)}
	if t.claimedAt.IsZero() {
		ctx, t.span = d.tracer.Start(ctx, t.Session, tracing.Dispatch, about...)
		return ctx
	}
	ctx, t.span = d.tracer.Begin(ctx, t.Session, tracing.Dispatch, t.claimedAt, about...)
	if t.rescued != uuid.Nil {
		d.tracer.After(t.span, t.rescued)
	}
	return ctx
}

// endSpans ends the spans of a batch that no acknowledgement has ended; an ended span stays as it is.
func endSpans(batch []Trigger) {
	for i := range batch {
		batch[i].span.Fail("not acknowledged")
		batch[i].span.End()
	}
}

// traceEnd says in a run's trace that the scheduler has ended it, and why.
func (d *dispatcher) traceEnd(ctx context.Context, name tracing.Name, session uuid.UUID, connectorID int32, why string) {
	_, span := d.tracer.Start(ctx, session, name, tracing.Connector(connectorID), tracing.Verdict("failed"))
	span.Fail(why)
	span.End()
}
