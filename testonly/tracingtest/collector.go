// Package tracingtest is an OTLP collector for tests.
package tracingtest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/testonly/testkit"
)

// Span is one that has arrived. IDs are in hexadecimal.
type Span struct {
	Service, Name, Trace, ID, Parent, Problem string
	Attributes                                map[string]string
	Links                                     []string // trace and span, with a colon between
	Start, End                                time.Time
}

// Collector takes spans by OTLP over HTTP.
type Collector struct {
	t      testing.TB
	server *httptest.Server

	mu     sync.Mutex
	answer func(http.ResponseWriter, *http.Request) bool
	call   func(context.Context) error
	bodies [][]byte
	traces map[string]Trace // by their IDs
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	c := &Collector{t: t, traces: map[string]Trace{}}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

// Config sends all traces here.
func (c *Collector) Config() config.Tracing {
	return config.Tracing{OTLP: config.OTLP{Endpoint: c.server.URL}, TracesRatio: 1}
}

// OverGRPC sends all traces here by gRPC, to a server that ends with the test.
func (c *Collector) OverGRPC() config.Tracing {
	listener, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, taker{c: c})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	c.t.Cleanup(func() { server.Stop(); require.NoError(c.t, <-served) })
	return config.Tracing{
		OTLP: config.OTLP{Protocol: config.OverGRPC, Endpoint: "http://" + listener.Addr().String()}, TracesRatio: 1,
	}
}

// taker takes spans by gRPC.
type taker struct {
	collectorpb.UnimplementedTraceServiceServer

	c *Collector
}

// Export is part of the service.
func (t taker) Export(ctx context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.c.call != nil {
		if err := t.c.call(ctx); err != nil {
			return nil, err
		}
	}
	t.c.take(r.ResourceSpans)
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// AnswerCall has each call by gRPC answered by a function, until it returns nil: then the spans are taken.
func (c *Collector) AnswerCall(with func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call = with
}

// Answer has each request answered by a function, until it returns true: then the spans are taken.
func (c *Collector) Answer(with func(http.ResponseWriter, *http.Request) (take bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = with
}

// ServeHTTP takes spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Errorf("no gzip: %v", err)
			return
		}
		content = unpacked
	}
	body, err := io.ReadAll(content)
	if err != nil {
		return // the sender has gone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil && !c.answer(w, r) {
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("no OTLP request: %s %s, %s", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	data := &tracepb.TracesData{}
	if err := proto.Unmarshal(body, data); err != nil {
		c.t.Errorf("no spans: %v", err)
	}
	c.bodies = append(c.bodies, body)
	c.take(data.ResourceSpans)
}

func (c *Collector) take(spans []*tracepb.ResourceSpans) {
	for _, resource := range spans {
		service := words(resource.Resource.Attributes)["service.name"]
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				span := read(service, s)
				c.traces[span.Trace] = append(c.traces[span.Trace], span)
			}
		}
	}
}

func read(service string, s *tracepb.Span) Span {
	span := Span{
		Service: service, Name: s.Name, Attributes: words(s.Attributes),
		Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
	}
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		span.Problem = s.Status.Message
	}
	for _, l := range s.Links {
		span.Links = append(span.Links, hex.EncodeToString(l.TraceId)+":"+hex.EncodeToString(l.SpanId))
	}
	return span
}

func words(attributes []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.Key] = fmt.Sprint(v.IntValue)
		}
	}
	return all
}

// Bodies are the requests that were taken.
func (c *Collector) Bodies() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([][]byte(nil), c.bodies...)
}

// Trace is what has arrived of a session's trace.
func (c *Collector) Trace(session uuid.UUID) Trace {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.traces[hex.EncodeToString(session[:])])
}

// Await waits until spans of these names have arrived of a session's trace.
func (c *Collector) Await(session uuid.UUID, names ...string) Trace {
	c.t.Helper()
	testkit.Eventually(c.t, 30*time.Second, func() error {
		trace := c.Trace(session)
		for _, name := range names {
			if len(trace.Named(name)) == 0 {
				return fmt.Errorf("no span %q of %s among %v", name, session, trace)
			}
		}
		return nil
	})
	return c.Trace(session)
}

// Trace is spans of one trace.
type Trace []Span

// Named are those of a name.
func (t Trace) Named(name string) (named []Span) {
	for _, s := range t {
		if s.Name == name {
			named = append(named, s)
		}
	}
	return named
}

// One is the only span of a name.
func (t Trace) One(tb testing.TB, name string) Span {
	tb.Helper()
	named := t.Named(name)
	require.Len(tb, named, 1, "%s of %v", name, t)
	return named[0]
}
