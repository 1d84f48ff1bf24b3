package tracing_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/testonly/tracingtest"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

var ctx = context.Background()

func open(t *testing.T, cfg config.Tracing, service string) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Open(cfg, service, testkit.Logger(t))
	require.NoError(t, err)
	return tracer
}

func TestTheTraceOfARunIsNamedByItsSession(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	scheduler, semantic := open(t, collector.Config(), "scheduler"), open(t, collector.Config(), "semantic")
	session, began := uuid.New(), time.Now().Add(-time.Second)

	_, dispatch := scheduler.Begin(ctx, session, tracing.Dispatch, began, tracing.Connector(7), tracing.Type("file"))
	dispatch.End()
	_, complete := semantic.Start(ctx, session, tracing.Complete, tracing.Verdict("completed")) // without headers
	complete.End()
	require.NoError(t, scheduler.Close())
	require.NoError(t, semantic.Close())

	trace := collector.Trace(session)
	first, last := trace.One(t, "dispatch"), trace.One(t, "complete")
	require.Empty(t, first.Parent)
	require.Equal(t, strings.ReplaceAll(session.String(), "-", ""), first.Trace)
	require.Equal(t, first.ID, last.Parent)
	require.WithinDuration(t, began, first.Start, time.Microsecond)
	require.Equal(t, "scheduler", first.Service)
	require.Equal(t, "semantic", last.Service)
	require.Equal(t, "7", first.Attributes["echomind.connector"])
	require.Equal(t, session.String(), first.Attributes["echomind.session"])
}

func TestASpanIsBelowTheOneThatItsMessageComesFrom(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Traceparent", "traceparent"} {
		collector := tracingtest.New(t)
		tracer, session, message := open(t, collector.Config(), "worker"), uuid.New(), nats.Header{}
		sending, fetch := tracer.Start(ctx, session, tracing.Fetch)
		tracing.Send(sending, message)
		_, process := tracer.Start(tracing.Receive(ctx, nats.Header{header: message["Traceparent"]}), session, tracing.Process)
		process.End()
		fetch.End()
		require.NoError(t, tracer.Close())
		trace := collector.Trace(session)
		require.Equal(t, trace.One(t, "fetch").ID, trace.One(t, "process").Parent)
	}
}

func TestAMessageOfAnotherTraceIsLinkedAndItsRunKeepsItsOwn(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	tracer, session := open(t, collector.Config(), "worker"), uuid.New()
	foreign := nats.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}}
	_, span := tracer.Start(tracing.Receive(ctx, foreign), session, tracing.Sync)
	span.End()
	require.NoError(t, tracer.Close())
	require.Equal(t, []string{"4bf92f3577b34da6a3ce929d0e0e4736:00f067aa0ba902b7"}, collector.Trace(session).One(t, "sync").Links)
}

func TestNothingTravelsButTraceparent(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	received := tracing.Receive(ctx, nats.Header{
		"Traceparent": {parent}, "Tracestate": {"vendor=secret"}, "Baggage": {"password=secret"}, "baggage": {"a=b"},
	})
	sent := nats.Header{}
	tracing.Send(received, sent)
	require.Equal(t, nats.Header{"Traceparent": {parent}}, sent, "and that also where tracing is off")
	for _, bad := range []string{"", "x", "00-0-0-01", strings.Repeat("0", 55)} {
		sent := nats.Header{}
		tracing.Send(tracing.Receive(ctx, nats.Header{"Traceparent": {bad}}), sent)
		require.Empty(t, sent, bad)
	}
}

func TestARatioTracesThatShareOfTheSessionsAndTheSameInEveryService(t *testing.T) {
	t.Parallel()
	const sessions = 4000 // fewer than the queue holds
	for _, ratio := range []float64{0, 0.1, 0.25, 0.5, 1} {
		collector := tracingtest.New(t)
		cfg := collector.Config()
		cfg.TracesRatio = ratio
		one, other := open(t, cfg, "one"), open(t, cfg, "other")
		ids := make([]uuid.UUID, sessions)
		for i := range ids {
			ids[i] = uuid.New()
			_, begun := one.Begin(ctx, ids[i], tracing.Dispatch, time.Now())
			begun.End()
			_, ended := other.Start(ctx, ids[i], tracing.Complete)
			ended.End()
		}
		require.NoError(t, one.Close())
		require.NoError(t, other.Close())
		traced := 0
		for _, id := range ids {
			trace := collector.Trace(id)
			require.Contains(t, []int{0, 2}, len(trace))
			traced += len(trace) / 2
		}
		require.InDelta(t, ratio*sessions, traced, 4*30, "ratio %g", ratio) // four standard deviations
	}
}

func TestWithoutACollectorNothingIsRecordedOrAllocated(t *testing.T) {
	tracer := open(t, config.Tracing{TracesRatio: 1}, "scheduler")
	require.Nil(t, tracer)
	session := uuid.New()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		inside, span := tracer.Start(ctx, session, tracing.Sync, tracing.Connector(1), tracing.Type("file"))
		_, begun := tracer.Begin(inside, session, tracing.Dispatch, time.Time{}, tracing.Connector(1))
		_, within := tracer.Within(inside, tracing.Embed, tracing.Texts(3))
		tracing.Send(inside, nil)
		span.Set(tracing.Outcome("fetched"))
		span.Fail("not acknowledged")
		span.End()
		begun.End()
		within.End()
	}))
	require.NoError(t, tracer.Close())
}

func TestALargeRunHasFewRecordedMessages(t *testing.T) {
	t.Parallel()
	require.True(t, tracing.Recorded(0), "sync completed")
	recorded, counts := 0, map[int64]int{}
	for no := int64(1); no <= 1_000_000; no++ {
		if tracing.Recorded(no) {
			recorded++
		}
		counts[no] = recorded
	}
	require.Equal(t, []int{15, 89, 143}, []int{counts[15], counts[10_000], counts[1_000_000]})
}

func TestWhatTheCollectorCannotTakeNowIsSentAgain(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	refusals := 2
	collector.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		if refusals == 0 {
			return true
		}
		refusals--
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	})
	tracer, session := open(t, collector.Config(), "worker"), uuid.New()
	_, span := tracer.Start(ctx, session, tracing.Sync)
	span.End()
	require.NoError(t, tracer.Close())
	collector.Trace(session).One(t, "sync")
}

func TestHeadersAreForTheCollectorAlone(t *testing.T) {
	t.Parallel()
	elsewhere := tracingtest.New(t)
	elsewhere.Answer(func(http.ResponseWriter, *http.Request) bool { t.Error("a redirect was followed"); return false })
	collector := tracingtest.New(t)
	got := make(chan string, 1)
	collector.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		got <- r.Header.Get("Authorization")
		http.Redirect(w, r, elsewhere.Config().OTLP.Endpoint, http.StatusTemporaryRedirect)
		return false
	})
	cfg, said := collector.Config(), &bytes.Buffer{}
	cfg.OTLP.Headers = "authorization=Bearer%20s3cret,x-tenant=a"
	tracer, err := tracing.Open(cfg, "worker", slog.New(slog.NewTextHandler(said, nil)))
	require.NoError(t, err)
	_, span := tracer.Start(ctx, uuid.New(), tracing.Sync)
	span.End()
	require.NoError(t, tracer.Close())
	require.Equal(t, "Bearer s3cret", <-got)
	require.Contains(t, said.String(), "307 Temporary Redirect")
	require.NotContains(t, said.String(), "s3cret")
}

// Not parallel: the goroutines of other tests would count.
func TestACollectorThatIsAwayHoldsUpNothingAndIsSpokenOfOnce(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0") // it accepts connections and never answers
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	closed, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, at := range map[string]net.Addr{"silent": silent.Addr(), "closed": closed.Addr()} {
		for _, protocol := range []string{config.OverHTTP, config.OverGRPC} {
			before := goleak.IgnoreCurrent()
			said := &bytes.Buffer{}
			cfg := config.Tracing{OTLP: config.OTLP{Protocol: protocol, Endpoint: "http://" + at.String()}, TracesRatio: 1}
			tracer, err := tracing.Open(cfg, "worker", slog.New(slog.NewTextHandler(said, nil)))
			require.NoError(t, err)
			for range 20_000 { // many more than the queue holds
				_, span := tracer.Start(ctx, uuid.New(), tracing.Sync)
				span.End()
			}
			require.NoError(t, tracer.Close())
			require.Equal(t, 1, strings.Count(said.String(), "spans are lost"), said)
			require.NoError(t, goleak.Find(before), "%s, %s", name, protocol)
		}
	}
}

// send has a tracer send one span, and returns its session and what was logged.
func send(t *testing.T, cfg config.Tracing) (uuid.UUID, string) {
	t.Helper()
	said := &bytes.Buffer{}
	tracer, err := tracing.Open(cfg, "worker", slog.New(slog.NewTextHandler(said, nil)))
	require.NoError(t, err)
	session := uuid.New()
	_, span := tracer.Start(ctx, session, tracing.Sync)
	span.End()
	require.NoError(t, tracer.Close())
	return session, said.String()
}

func TestSpansTravelByGRPCWithTheirHeadersAndAreSentAgain(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	var keys []string
	collector.AnswerCall(func(ctx context.Context) error {
		given, _ := metadata.FromIncomingContext(ctx)
		keys = append(keys, given.Get("x-api-key")...)
		if len(keys) < 3 {
			return status.Error(codes.Unavailable, "not yet")
		}
		return nil
	})
	cfg := collector.OverGRPC()
	cfg.OTLP.Headers, cfg.OTLP.Compression = "X-API-Key=s3cret", config.Gzip
	session, said := send(t, cfg)
	collector.Trace(session).One(t, "sync")
	require.Empty(t, said)
	require.Equal(t, []string{"s3cret", "s3cret", "s3cret"}, keys)
}

func TestARequestThatNobodyAnswersIsSentAgain(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	dropped := false
	collector.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		if dropped {
			return true
		}
		dropped = true
		conn, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		return false
	})
	session, said := send(t, collector.Config())
	collector.Trace(session).One(t, "sync")
	require.Empty(t, said)
}

func TestWhatIsSetForTracesGoesFirst(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	path, packed := "", ""
	collector.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		path, packed = r.URL.Path, r.Header.Get("Content-Encoding")
		r.URL.Path = "/v1/traces"
		return true
	})
	cfg := collector.Config()
	cfg.Traces = config.OTLP{Endpoint: cfg.OTLP.Endpoint + "/of/traces", Protocol: config.OverHTTP, Compression: config.Gzip}
	cfg.OTLP = config.OTLP{Endpoint: "http://127.0.0.1:1", Protocol: config.OverGRPC, Compression: "none"}
	session, _ := send(t, cfg)
	collector.Trace(session).One(t, "sync")
	require.Equal(t, []string{"/of/traces", "gzip"}, []string{path, packed})
}

func TestSpansTravelAsJSON(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	form := make(chan string, 1)
	collector.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		form <- r.Header.Get("Content-Type")
		return false
	})
	cfg := collector.Config()
	cfg.OTLP.Protocol = config.AsJSON
	_, said := send(t, cfg)
	require.Equal(t, "application/json", <-form)
	require.Empty(t, said)
}

func TestACollectorIsCheckedAgainstTheCertificatesThatAreNamed(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	secure := httptest.NewTLSServer(collector)
	t.Cleanup(secure.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	cfg := config.Tracing{OTLP: config.OTLP{Endpoint: secure.URL, CAFile: ca}, TracesRatio: 1}
	require.NoError(t, cfg.Validate())
	session, _ := send(t, cfg)
	collector.Trace(session).One(t, "sync")

	cfg.OTLP.CAFile = ""
	testkit.Eventually(t, 10*time.Second, func() error { // what a busy machine has not sent when it closes is lost
		session, said := send(t, cfg)
		require.Empty(t, collector.Trace(session))
		if !strings.Contains(said, "certificate") {
			return errors.New(said)
		}
		return nil
	})
}

func TestARefusalsTextIsNotLogged(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	collector.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "bad key "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		return false
	})
	cfg := collector.Config()
	cfg.OTLP.Headers = "authorization=Bearer%20s3cret"
	_, said := send(t, cfg)
	require.Contains(t, said, "401 Unauthorized")
	require.NotContains(t, said, "s3cret")
}

func TestWithTheExporterNoneThereAreNoTraces(t *testing.T) {
	t.Parallel()
	cfg := tracingtest.New(t).Config()
	cfg.TracesExporter = "none"
	require.Nil(t, open(t, cfg, "worker"))
}

func TestBadSettingsAreNamedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]config.Tracing{
		"OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL such as http://127.0.0.1:4318":        {OTLP: config.OTLP{Endpoint: "collector:4317"}},
		"OTEL_EXPORTER_OTLP_ENDPOINT: holds a user, a query or a fragment":                {OTLP: config.OTLP{Endpoint: "http://u:s3cret@host"}},
		"OTEL_EXPORTER_OTLP_HEADERS: pair 2 is not name=value":                            {OTLP: config.OTLP{Headers: "a=b,s3cret"}},
		"OTEL_TRACES_SAMPLER_ARG=1.5: must be from 0 to 1":                                {TracesRatio: 1.5},
		"OTEL_EXPORTER_OTLP_HEADERS: pair 1 is not name=value with the value percent-enc": {OTLP: config.OTLP{Headers: "a=s3cret%0a"}},
	} {
		err := cfg.Validate()
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
	for want, cfg := range map[string]config.Tracing{
		`OTEL_TRACES_EXPORTER="zipkin": must be otlp or none`:                                             {TracesExporter: "zipkin"},
		`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="thrift": must be http/protobuf or http/json or grpc`:         {Traces: config.OTLP{Protocol: "thrift"}},
		`OTEL_EXPORTER_OTLP_TIMEOUT=60001: must be from 1 to 60000`:                                       {OTLP: config.OTLP{Timeout: 60_001}},
		`OTEL_EXPORTER_OTLP_CERTIFICATE="/nowhere": no such file or directory`:                            {OTLP: config.OTLP{CAFile: "/nowhere"}},
		`OTEL_EXPORTER_OTLP_CLIENT_KEY="": a certificate needs its key; set both or none`:                 {Traces: config.OTLP{CertFile: "."}},
		`OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY: the endpoint is http; name an`: {OTLP: config.OTLP{Endpoint: "http://a", CAFile: "."}},
	} {
		require.ErrorContains(t, cfg.Validate(), want)
	}
	require.NoError(t, config.Tracing{OTLP: config.OTLP{Endpoint: "https://otlp.example/base/", Headers: "a=b"}, TracesRatio: 0.5}.Validate())
}

func TestTheDocumentListsEverySpanAndEveryAttribute(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/tracing.md")
	require.NoError(t, err)
	for name := range tracing.Names {
		require.Contains(t, string(page), fmt.Sprintf("\n| `%s` |", name))
	}
	for _, key := range tracing.Keys {
		require.Contains(t, string(page), "`"+key+"`")
	}
}
