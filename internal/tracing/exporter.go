package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/line"
)

const (
	sendPause  = 250 * time.Millisecond
	sendPauses = 2 * time.Second // the longest
	// reportEvery is the interval of log lines about lost spans.
	reportEvery = time.Minute
	// maxReportBytes is how many bytes of a problem are logged: it may contain a collector's response.
	maxReportBytes = 300
)

// exporter passes spans to OpenTelemetry's own exporter, and reports lost spans. The SDK would print each lost batch.
type exporter struct {
	sends  sdktrace.SpanExporter
	close  func()
	log    *slog.Logger
	ended  context.Context // its cause says why nothing more is sent
	giveUp context.CancelFunc
	// Only one batch is sent at a time.
	lost     int // spans since the last report
	reported time.Time
}

func newExporter(to config.OTLP, log *slog.Logger) (*exporter, error) {
	headers, err := to.Pairs()
	if err != nil {
		return nil, err
	}
	secured, err := tlsOf(to)
	if err != nil {
		return nil, err
	}
	e := &exporter{log: log, close: func() {}}
	timeout := time.Duration(to.Timeout) * time.Millisecond
	// Every option is given: the library would read the others from the environment, unchecked.
	var client otlptrace.Client
	if to.Protocol == config.OverGRPC {
		client = overGRPC(to, headers, secured, timeout)
	} else {
		web := &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true, TLSClientConfig: secured}
		e.close = web.CloseIdleConnections
		client = overHTTP(to, headers, web, timeout)
	}
	// Both only make their client; neither waits for the collector.
	if e.sends, err = otlptrace.New(context.Background(), client); err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	e.ended, e.giveUp = context.WithCancel(context.Background())
	return e, nil
}

func overHTTP(to config.OTLP, headers map[string]string, web http.RoundTripper, timeout time.Duration) otlptrace.Client {
	encoding, compression := otlptracehttp.EncodingProtobuf, otlptracehttp.NoCompression
	if to.Protocol == config.AsJSON {
		encoding = otlptracehttp.EncodingJSON
	}
	if to.Compression == config.Gzip {
		compression = otlptracehttp.GzipCompression
	}
	return otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(to.Endpoint), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithEncoding(encoding), otlptracehttp.WithCompression(compression), otlptracehttp.WithTimeout(timeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: sendPause, MaxInterval: sendPauses, MaxElapsedTime: timeout,
		}),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: terse{web},
			// The headers may hold a secret, which is meant for this collector only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	)
}

func overGRPC(to config.OTLP, headers map[string]string, secured *tls.Config, timeout time.Duration) otlptrace.Client {
	steady := backoff.DefaultConfig
	steady.BaseDelay, steady.MaxDelay = sendPause, sendPauses
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpointURL(to.Endpoint), otlptracegrpc.WithHeaders(headers),
		otlptracegrpc.WithTimeout(timeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: sendPause, MaxInterval: sendPauses, MaxElapsedTime: timeout,
		}),
		otlptracegrpc.WithDialOption(grpc.WithNoProxy(), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: steady, MinConnectTimeout: timeout,
		})),
	}
	if to.Compression == config.Gzip {
		options = append(options, otlptracegrpc.WithCompressor(config.Gzip))
	}
	if strings.HasPrefix(to.Endpoint, "https:") {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(secured)))
	}
	return otlptracegrpc.NewClient(options...)
}

// tlsOf reads the certificates; where no authority is named, the collector's certificate is checked against the system's.
func tlsOf(to config.OTLP) (*tls.Config, error) {
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if to.CAFile != "" {
		certificates, err := os.ReadFile(to.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(certificates) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE=%q: holds no certificate in PEM", to.CAFile)
		}
	}
	if to.CertFile != "" {
		own, err := tls.LoadX509KeyPair(to.CertFile, to.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY: %w", err)
		}
		secured.Certificates = []tls.Certificate{own}
	}
	return secured, nil
}

// ExportSpans is part of sdktrace.SpanExporter. It returns no error: the SDK would print each.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ended, cancel)()
	if err := e.sends.ExportSpans(ctx, spans); err != nil {
		e.report(len(spans), err)
	}
	return nil
}

// Shutdown is part of sdktrace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error {
	e.giveUp()
	defer e.close()
	return e.sends.Shutdown(ctx)
}

func (e *exporter) report(lost int, err error) {
	e.lost += lost
	if time.Since(e.reported) < reportEvery {
		return
	}
	e.log.Warn("spans are lost, and nothing else; look after the collector at OTEL_EXPORTER_OTLP_ENDPOINT", "spans", e.lost, "err", line.Clip(err.Error(), maxReportBytes))
	e.lost, e.reported = 0, time.Now()
}

// terse reduces a refusal to its status: the exporter would print the whole response, which may repeat the headers that were
// sent. It also lets the exporter repeat a request that no collector has answered.
type terse struct{ web http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (t terse) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.web.RoundTrip(r)
	if err != nil {
		return nil, unanswered{err}
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
		_ = answer.Body.Close()
		answer.Body = io.NopCloser(strings.NewReader(fmt.Sprintf("the collector answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))))
	}
	return answer, nil
}

// unanswered is a temporary error in the sense of net/url, as the exporter checks it.
type unanswered struct{ error }

// Temporary says that the request may succeed later.
func (unanswered) Temporary() bool { return true }

// Unwrap returns why there was no response.
func (u unanswered) Unwrap() error { return u.error }
