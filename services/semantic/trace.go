package semantic

import (
	"context"

	"github.com/echomind/sync/internal/tracing"
)

// trace begins a span for a group of messages of one session, if one of the messages is recorded, below the span that its header
// names. Spans of what follows, such as the verdict, are below it.
func (s *Semantic) trace(ctx context.Context, group []delivery) (context.Context, tracing.Span) {
	if s.servers.Tracer == nil {
		return ctx, tracing.Span{}
	}
	for _, d := range group {
		if !tracing.Recorded(d.request.Number) {
			continue
		}
		ctx, span := s.servers.Tracer.Start(tracing.Receive(ctx, d.msg.Headers()), d.try.Run, tracing.Process,
			tracing.Connector(d.request.ConnectorId), tracing.Number(d.request.Number), tracing.Messages(int64(len(group))))
		if meta, err := d.msg.Metadata(); err == nil {
			span.Set(tracing.Delivery(meta.NumDelivered))
		}
		return ctx, span
	}
	return tracing.Receive(ctx, group[0].msg.Headers()), tracing.Span{}
}
