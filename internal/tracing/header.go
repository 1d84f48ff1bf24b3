package tracing

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const header = "Traceparent"

// Receive reads the span of a message's sender. Tracestate and baggage, in which others may have put anything, are dropped.
func Receive(ctx context.Context, headers nats.Header) context.Context {
	for name, values := range headers {
		if len(values) == 0 || !strings.EqualFold(name, header) { // NATS's headers have no canonical case
			continue
		}
		carrier := propagation.HeaderCarrier(http.Header{header: values[:1]})
		from := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
		if from.IsValid() {
			return trace.ContextWithRemoteSpanContext(ctx, from)
		}
	}
	return ctx
}

// Send tells a message's receiver the span of its sender; where tracing is off, the span that was received.
func Send(ctx context.Context, headers nats.Header) {
	from := trace.SpanContextFromContext(ctx)
	if from.IsValid() {
		headers.Set(header, fmt.Sprintf("00-%s-%s-%s", from.TraceID(), from.SpanID(), from.TraceFlags()&trace.FlagsSampled))
	}
}
