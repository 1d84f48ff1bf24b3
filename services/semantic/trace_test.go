package semantic

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/internal/tracing/tracingtest"
	"github.com/echomind/sync/proto/gen/internalpb"
)

// collect has the spans of the flow's service sent to a collector.
func (f *flow) collect() *tracingtest.Collector {
	f.t.Helper()
	collector := tracingtest.New(f.t)
	tracer, err := tracing.Open(collector.Config(), "semantic", testkit.Logger(f.t))
	require.NoError(f.t, err)
	f.servers.Tracer = tracer // closed with them
	return collector
}

func TestFewMessagesOfALargeRunHaveSpansAndItsVerdictAlwaysHas(t *testing.T) {
	f := newFlow(t)
	collector := f.collect()
	f.config.Batch = 1 // so that no group has more than one message
	c, recorded := f.syncing(), 0
	var messages []*internalpb.DocumentProcessRequest
	for no := int64(1); no <= 100; no++ {
		messages = append(messages, c.doc(no, fmt.Sprint(no), "apple"))
		if tracing.Recorded(no) {
			recorded++
		}
	}
	f.publishes(c.completed(100)) // the last of the documents, which is one without a span, completes the run
	f.publishes(messages[:99]...)
	require.False(t, tracing.Recorded(99))
	f.publishes(messages[99], messages[98])
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.NoError(t, f.servers.Tracer.Close())

	trace := collector.Trace(c.session)
	require.Len(t, trace.Named("store"), recorded)
	require.Len(t, trace.Named("embed"), recorded)
	require.Len(t, trace.Named("process"), recorded+1, "with that of sync completed")
	verdicts := 0
	for _, s := range trace.Named("complete") {
		if s.Attributes["echomind.verdict"] == "completed" {
			verdicts++
		}
	}
	require.Equal(t, 1, verdicts)
}

func TestACompletionThatAStopEndsIsNoProblemOfItsRun(t *testing.T) {
	f := newFlow(t)
	collector := f.collect()
	c := f.syncing()
	stopped, stop := context.WithCancel(ctx)
	stop()
	require.ErrorIs(t, f.complete(stopped, c.session), context.Canceled)
	require.NoError(t, f.servers.Tracer.Close())
	span := collector.Trace(c.session).One(t, "complete")
	require.Empty(t, span.Problem)
	require.Equal(t, "handed back", span.Attributes["echomind.outcome"])
}

func TestADeadLetterIsInItsRunsTrace(t *testing.T) {
	f := newFlow(t)
	collector := f.collect()
	f.poisoned()
	c := f.syncing()
	f.publishes(c.doc(1, "bad", "poison"), c.completed(1))
	for _, msg := range f.pulled(2) {
		require.NoError(t, msg.Nak())
	}
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.NoError(t, f.servers.Tracer.Close())
	trace := collector.Trace(c.session)
	letter := trace.One(t, "dead letter")
	require.Equal(t, "given up", letter.Problem)
	require.Equal(t, "2", letter.Attributes["echomind.tries"])
	for _, body := range collector.Bodies() {
		require.NotContains(t, string(body), errPoison.Error())
	}
}
