// Package tracing records a run, from its claim to its verdict, as spans of one OpenTelemetry trace.
//
// The trace's ID is the run's session, and the ID of its first span is the session's second half. So every service can compute
// them, the spans of a run belong together where a message came without headers, and a session is enough to find its trace.
// Headers only tell which span sent a message.
//
//	dispatch                scheduler   the first span; a repeat of a lost message is a child of it
//	└── sync                worker      from the trigger's arrival to what became of the sync
//	    ├── pick up
//	    └── fetch                       the handler
//	        └── publish                 some of the messages, see Recorded
//	            └── process semantic    the batch that such a message came in
//	                ├── embed
//	                ├── store
//	                └── complete        the verdict
//
// Nothing that a user has written gets into a span: attributes are numbers, the session, and words of closed lists.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/echomind/sync/internal/config"
)

const (
	// queued is how many spans wait to be sent at most; further spans are dropped, and nothing waits for one.
	queued = 4096
	batch  = 512
	// sendEvery is how long a span waits to be sent together with others.
	sendEvery = 2 * time.Second
	// flushTimeout bounds the sending of the remaining spans at a stop.
	flushTimeout = 2 * time.Second
)

// Tracer records the spans of one service. A nil Tracer records nothing: tracing is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	exporter *exporter
	share    share
}

// Open makes a service's tracer; nil where no collector is configured. It does not wait for the collector: while that is away
// spans are lost, and nothing else changes.
func Open(cfg config.Tracing, service string, log *slog.Logger) (*Tracer, error) {
	to := cfg.Sender()
	if to.Endpoint == "" {
		return nil, nil
	}
	sends, err := newExporter(to, log)
	if err != nil {
		return nil, err
	}
	t := &Tracer{exporter: sends, share: shareOf(cfg.TracesRatio)}
	// Every option is given: the SDK would read the others from the environment.
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(t.share)),
		sdktrace.WithIDGenerator(identities{}),
		sdktrace.WithResource(describe(cfg, service)),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: 256, AttributeCountLimit: 32, EventCountLimit: 32, LinkCountLimit: 4,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
		sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(t.exporter,
			sdktrace.WithMaxQueueSize(queued), sdktrace.WithMaxExportBatchSize(batch),
			sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(time.Duration(to.Timeout)*time.Millisecond))),
	)
	t.spans = t.provider.Tracer("github.com/echomind/sync")
	return t, nil
}

// Close sends the remaining spans, for flushTimeout at most.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	// The provider is not given the deadline: it would leave its goroutine behind.
	defer time.AfterFunc(flushTimeout, t.exporter.giveUp).Stop()
	if err := t.provider.Shutdown(context.Background()); err != nil {
		return fmt.Errorf("end tracing: %w", err)
	}
	return nil
}

func describe(cfg config.Tracing, service string) *resource.Resource {
	if cfg.ServiceName != "" {
		service = cfg.ServiceName
	}
	attributes := []attribute.KeyValue{
		attribute.String("service.name", service), attribute.String("service.namespace", "echomind"),
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		attributes = append(attributes, attribute.String("service.version", info.Main.Version))
	}
	if host, err := os.Hostname(); err == nil {
		attributes = append(attributes, attribute.String("host.name", host))
	}
	return resource.NewSchemaless(attributes...)
}
