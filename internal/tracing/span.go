package tracing

import (
	"context"
	"math/bits"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Name is the name of a span.
type Name string

// The spans.
const (
	Dispatch   Name = "dispatch"    // a trigger, from its claim to its acknowledgement by the stream
	Rescue     Name = "rescue"      // the end of a run whose worker was lost
	Lost       Name = "lost"        // the end of a run whose documents were lost in transit
	Sync       Name = "sync"        // a worker's part of a run
	PickUp     Name = "pick up"     // PENDING to SYNCING
	Fetch      Name = "fetch"       // the handler
	Publish    Name = "publish"     // a document.process message, until it is acknowledged
	Process    Name = "process"     // a batch of such messages, with all its waits
	Embed      Name = "embed"       // the embedder's part of it
	Store      Name = "store"       // the transaction
	Checkpoint Name = "checkpoint"  // a checkpoint became the connector's state
	Complete   Name = "complete"    // the run's verdict, and the connector to ACTIVE
	DeadLetter Name = "dead letter" // a message was given up
)

// Names lists all spans, with their kinds.
var Names = map[Name]trace.SpanKind{
	Dispatch: trace.SpanKindProducer, Rescue: trace.SpanKindInternal, Lost: trace.SpanKindInternal,
	Sync: trace.SpanKindConsumer, PickUp: trace.SpanKindClient, Fetch: trace.SpanKindInternal, Publish: trace.SpanKindProducer,
	Process: trace.SpanKindConsumer, Embed: trace.SpanKindInternal, Store: trace.SpanKindClient,
	Checkpoint: trace.SpanKindClient, Complete: trace.SpanKindClient, DeadLetter: trace.SpanKindProducer,
}

// Span is a span. The methods of a span that is not recorded, such as the zero Span, do nothing.
type Span struct{ span trace.Span }

// Begin begins the trace of a session with a span that began at a given time, such as the claim's.
func (t *Tracer) Begin(ctx context.Context, session uuid.UUID, name Name, began time.Time, attributes ...Attribute) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx = context.WithValue(ctx, sessionKey{}, session)
	return t.start(ctx, session, name, attributes, trace.WithNewRoot(), trace.WithTimestamp(began))
}

// Start begins a span of a session's trace, as a child of ctx's span. Where ctx has none, or one of another trace, it is a
// child of the trace's first span, and linked to that other one.
func (t *Tracer) Start(ctx context.Context, session uuid.UUID, name Name, attributes ...Attribute) (context.Context, Span) {
	if t == nil || session == uuid.Nil {
		return ctx, Span{}
	}
	above := trace.SpanContextFromContext(ctx)
	if above.TraceID() == trace.TraceID(session) {
		return t.start(ctx, session, name, attributes)
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, t.first(session))
	if above.IsValid() {
		return t.start(ctx, session, name, attributes, trace.WithLinks(trace.Link{SpanContext: above}))
	}
	return t.start(ctx, session, name, attributes)
}

// Within is Start for a child of a span of this process that is being recorded, and does nothing elsewhere.
func (t *Tracer) Within(ctx context.Context, name Name, attributes ...Attribute) (context.Context, Span) {
	above := trace.SpanFromContext(ctx)
	if t == nil || !above.IsRecording() {
		return ctx, Span{}
	}
	return t.start(ctx, uuid.UUID(above.SpanContext().TraceID()), name, attributes)
}

func (t *Tracer) start(
	ctx context.Context, session uuid.UUID, name Name, attributes []Attribute, options ...trace.SpanStartOption,
) (context.Context, Span) {
	ctx, span := t.spans.Start(ctx, string(name), append(options, trace.WithSpanKind(Names[name]))...)
	s := Span{span}
	if span.IsRecording() {
		span.SetAttributes(attribute.String("echomind.session", session.String()))
		s.Set(attributes...)
	}
	return ctx, s
}

// Of returns ctx's span.
func Of(ctx context.Context) Span { return Span{trace.SpanFromContext(ctx)} }

// After links a span to the trace of an earlier session.
func (t *Tracer) After(s Span, session uuid.UUID) {
	if s.span != nil {
		s.span.AddLink(trace.Link{SpanContext: t.first(session)})
	}
}

// Set adds attributes.
func (s Span) Set(attributes ...Attribute) {
	if s.span == nil || !s.span.IsRecording() {
		return
	}
	for _, a := range attributes {
		if a.word != "" {
			s.span.SetAttributes(attribute.String(a.key, a.word))
		} else {
			s.span.SetAttributes(attribute.Int64(a.key, a.number))
		}
	}
}

// Fail marks a span as failed, with a word that says why: an error's text may contain what a user has written.
func (s Span) Fail(why string) {
	if s.span != nil {
		s.span.SetStatus(codes.Error, why)
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// Recorded says whether a run's message of this number has spans of its own: its number has, in binary, only zeros after its
// first four digits. These are the first 15, then ever fewer, 89 of the first 10,000 and 143 of the first million, so that a
// large run's trace stays readable. Number 0, sync completed, has spans too.
func Recorded(no int64) bool {
	return bits.Len64(uint64(no))-bits.TrailingZeros64(uint64(no)) <= 4
}
