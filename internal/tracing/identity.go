package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

type sessionKey struct{}

// identities derives the IDs of a run's first span from its session; every other span gets a random ID.
type identities struct{}

// NewIDs is part of sdktrace.IDGenerator.
func (identities) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	session, _ := ctx.Value(sessionKey{}).(uuid.UUID)
	return trace.TraceID(session), firstSpan(session)
}

// NewSpanID is part of sdktrace.IDGenerator.
func (identities) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], max(rand.Uint64(), 1))
	return id
}

// firstSpan is never zero: it contains a UUID's variant bits.
func firstSpan(session uuid.UUID) trace.SpanID { return trace.SpanID(session[8:]) }

// share decides which runs are traced: those for which the last 56 bits of the session, which are random in a UUID, are below
// it. OpenTelemetry's own sampler uses the last 64 bits; a UUID fixes two of them: with that sampler a ratio up to 0.5
// traces nothing, and a ratio from 0.75 on traces everything.
type share uint64

const randomBits = 56

func shareOf(ratio float64) share { return share(ratio * (1 << randomBits)) }

func (s share) takes(id trace.TraceID) bool {
	return binary.BigEndian.Uint64(id[8:])&(1<<randomBits-1) < uint64(s)
}

// ShouldSample is part of sdktrace.Sampler.
func (s share) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if s.takes(p.TraceID) {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

// Description is part of sdktrace.Sampler.
func (s share) Description() string { return fmt.Sprintf("Sessions{%g}", float64(s)/(1<<randomBits)) }

// first is the first span of a session's trace, as every process can compute it.
func (t *Tracer) first(session uuid.UUID) trace.SpanContext {
	identity := trace.SpanContextConfig{TraceID: trace.TraceID(session), SpanID: firstSpan(session), Remote: true}
	if t.share.takes(identity.TraceID) {
		identity.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(identity)
}
