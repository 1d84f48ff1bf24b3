package semantic

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/testonly/tracingtest"
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

// It is committed: nobody else is told of it. A call that several may share has a second or two: where the machine has stood still for longer, it is tried once more.
func TestACompletionThatIsAnsweredDuringAStopHasItsVerdict(t *testing.T) {
	t.Parallel()
	for range 10 {
		if isAnsweredDuringAStop(t) {
			return
		}
	}
	t.Fatal("no completion was answered in time")
}

func isAnsweredDuringAStop(t *testing.T) bool {
	t.Helper()
	f := newFlowOn(t, testkit.Database(t, db.Up))
	collector := f.collect()
	c := f.syncing()
	f.exec(`UPDATE open_runs SET total = 0, stored = 0, whole = true WHERE id = $1`, c.session)
	f.exec(`CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER late BEFORE UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION late()`)
	holder, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(ctx) }()
	_, err = holder.Exec(ctx, `SELECT pg_advisory_xact_lock(7)`)
	require.NoError(t, err)
	stopping, stop := context.WithCancel(ctx)
	answer := make(chan error, 1)
	go func() { answer <- f.complete(stopping, c.session) }()
	over := false
	testkit.Eventually(t, soon, func() error {
		if over = len(answer) > 0; over {
			return nil
		}
		if one[int](f.fixture, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 0 {
			return errors.New("the completion does not wait")
		}
		return nil
	})
	stop()
	require.NoError(t, holder.Rollback(ctx))
	err = <-answer
	if over || errors.Is(err, context.Canceled) {
		return false
	}
	require.NoError(t, err)
	require.NoError(t, f.servers.Tracer.Close())
	require.Equal(t, "skipped", collector.Trace(c.session).One(t, "complete").Attributes["echomind.verdict"])
	require.InDelta(t, 1, testutil.ToFloat64(f.metrics.verdicts.WithLabelValues("skipped")), 0)
	return true
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
