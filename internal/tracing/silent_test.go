package tracing

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/echomind/sync/internal/config"
)

// silent is an exporter whose collector never answers.
type silent struct{}

func (silent) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (silent) Shutdown(context.Context) error { return nil }

// It says how long, by the clock of a bubble: the tests with a real collector that is away compare with none.
func TestACollectorThatNeverAnswersHoldsUpNoSpanAndAStopForOneFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Tracing{OTLP: config.OTLP{Protocol: config.OverHTTP, Endpoint: "http://127.0.0.1:1", Timeout: 10_000}, TracesRatio: 1}
		tracer, err := Open(cfg, "worker", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		tracer.exporter.sends = silent{}
		began := time.Now()
		for range 10 * queued {
			_, span := tracer.Start(t.Context(), uuid.New(), Sync)
			span.End()
		}
		require.Zero(t, time.Since(began))
		require.NoError(t, tracer.Close())
		require.Equal(t, flushTimeout, time.Since(began), "and not for the deadline of each batch")
	})
}
