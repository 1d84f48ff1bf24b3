package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// request says spans of one tracer in OTLP's words. TracesData has the fields of ExportTraceServiceRequest, whose package
// would bring gRPC along.
func request(spans []sdktrace.ReadOnlySpan) *tracepb.TracesData {
	scope := &tracepb.ScopeSpans{
		Scope: &commonpb.InstrumentationScope{Name: spans[0].InstrumentationScope().Name},
		Spans: make([]*tracepb.Span, len(spans)),
	}
	for i, s := range spans {
		scope.Spans[i] = translate(s)
	}
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: keyValues(spans[0].Resource().Attributes())},
		ScopeSpans: []*tracepb.ScopeSpans{scope},
	}}}
}

func translate(s sdktrace.ReadOnlySpan) *tracepb.Span {
	traceID, spanID, parent := s.SpanContext().TraceID(), s.SpanContext().SpanID(), s.Parent()
	out := &tracepb.Span{
		TraceId: traceID[:], SpanId: spanID[:], Name: s.Name(), Kind: tracepb.Span_SpanKind(s.SpanKind()),
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: keyValues(s.Attributes()), Status: &tracepb.Status{Message: s.Status().Description},
		Flags: flags(s.SpanContext().TraceFlags(), parent),
	}
	if id := parent.SpanID(); id.IsValid() {
		out.ParentSpanId = id[:]
	}
	if s.Status().Code == codes.Error {
		out.Status.Code = tracepb.Status_STATUS_CODE_ERROR
	}
	for _, l := range s.Links() {
		linked, span := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		out.Links = append(out.Links, &tracepb.Span_Link{
			TraceId: linked[:], SpanId: span[:], Flags: flags(l.SpanContext.TraceFlags(), l.SpanContext),
		})
	}
	return out
}

// flags are those of W3C, and whether the span that other stands for is another process's.
func flags(own trace.TraceFlags, other trace.SpanContext) uint32 {
	all := uint32(own) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if other.IsRemote() {
		all |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return all
}

func keyValues(attributes []attribute.KeyValue) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(attributes))
	for i, a := range attributes {
		value := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: a.Value.String()}}
		if a.Value.Type() == attribute.INT64 {
			value.Value = &commonpb.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		}
		out[i] = &commonpb.KeyValue{Key: string(a.Key), Value: value}
	}
	return out
}
