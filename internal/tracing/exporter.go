package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/proto"
)

const (
	sendPause  = 250 * time.Millisecond
	sendPauses = 2 * time.Second // the longest of them
	// complainEvery is how often spans that were lost are spoken of.
	complainEvery = time.Minute
)

// exporter sends spans by OTLP over HTTP, in protobuf. OpenTelemetry's own brings gRPC along, see docs/dependencies.md.
type exporter struct {
	url     string
	headers http.Header
	client  *http.Client
	log     *slog.Logger
	ended   context.Context // why nothing more is sent
	giveUp  context.CancelFunc
	// Only one batch is sent at a time.
	lost       int // spans since the last complaint
	complained time.Time
}

func newExporter(endpoint string, headers http.Header, log *slog.Logger) *exporter {
	e := &exporter{
		url: strings.TrimRight(endpoint, "/") + "/v1/traces", headers: headers.Clone(), log: log,
		client: &http.Client{
			Transport: &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
			// The headers may hold a secret, which is for this collector.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	e.headers.Set("Content-Type", "application/x-protobuf")
	e.ended, e.giveUp = context.WithCancel(context.Background())
	return e
}

// ExportSpans is part of sdktrace.SpanExporter. It returns no error: the SDK would print it, each time.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ended, cancel)()
	if err := e.send(ctx, spans); err != nil {
		e.complain(len(spans), err)
	}
	return nil
}

// Shutdown is part of sdktrace.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.giveUp()
	e.client.CloseIdleConnections()
	return nil
}

// send repeats what may succeed later, as OTLP asks for, until ctx ends.
func (e *exporter) send(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	body, err := proto.Marshal(request(spans))
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	for pause := sendPause; ; pause = min(2*pause, sendPauses) {
		again, err := e.post(ctx, body)
		if err == nil || !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func (e *exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("make the request: %w", err)
	}
	r.Header = e.headers
	answer, err := e.client.Do(r)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return true, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("the collector answers %s", answer.Status)
}

func (e *exporter) complain(lost int, err error) {
	e.lost += lost
	if time.Since(e.complained) < complainEvery {
		return
	}
	e.log.Warn("spans are lost, and nothing else; look after the collector at OTEL_EXPORTER_OTLP_ENDPOINT", "spans", e.lost, "err", err)
	e.lost, e.complained = 0, time.Now()
}
