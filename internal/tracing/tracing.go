// Package tracing records what a run goes through, from its claim to its verdict, as spans of one OpenTelemetry trace.
//
// The trace is the run's own: its ID is the session, and the ID of its first span is the session's second half. So every
// service knows them without being told, spans of a run hold together where a message came without headers, and who has a
// session has the trace. Headers only say which span a message comes from.
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
	// queued is how many spans wait to be sent at most; those that find no place are dropped, and nothing waits for one.
	queued = 4096
	batch  = 512
	// sendEvery is how long a span waits for others to be sent with.
	sendEvery = 2 * time.Second
	// flushTimeout bounds the sending of what is left at a stop.
	flushTimeout = 2 * time.Second
)

// Tracer records the spans of one service. A nil one records nothing: tracing is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	exporter *exporter
	share    share
}

// Open makes a service's tracer; nil where no collector is configured. It waits for nobody: a collector that is away loses
// spans, and changes nothing else.
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
	// Every option is given: the SDK would read the environment for the others.
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

// Close sends what is left, and gives up on it after flushTimeout.
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
