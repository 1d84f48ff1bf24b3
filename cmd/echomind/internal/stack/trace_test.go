package stack_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/testonly/tracingtest"
)

// traced sends the spans of every service.
func traced(to config.Tracing) func(*stack.Config) {
	return func(cfg *stack.Config) {
		for _, shared := range []*config.Common{
			&cfg.Scheduler.Common, &cfg.Chunker.Common, &cfg.Connector.Common, &cfg.Semantic.Common,
		} {
			shared.Tracing = to
		}
	}
}

// lastRun is the session of a connector's last run, and why it ended as it did.
func lastRun(t *testing.T, conn *pgx.Conn, id int) (session uuid.UUID, reason string) {
	t.Helper()
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT id, coalesce(reason, '') FROM scheduler_runs
		WHERE connector_id = $1 ORDER BY started_at DESC LIMIT 1`, id).Scan(&session, &reason))
	return session, reason
}

// below says that a span is directly below another, and began after it.
func below(t *testing.T, above, span tracingtest.Span) {
	t.Helper()
	require.Equal(t, above.ID, span.Parent, "%s is not below %s", span.Name, above.Name)
	require.False(t, span.Start.Before(above.Start), "%s begins before %s", span.Name, above.Name)
}

func TestASyncIsOneTraceFromItsClaimToItsVerdict(t *testing.T) {
	collector := tracingtest.New(t)
	root := writeDocs(t, 300)
	conn, stop := run(t, dataFolder(t), root, traced(collector.Config()))
	id := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	require.Equal(t, "completed", verdict(t, conn, id))
	session, _ := lastRun(t, conn, id)
	stop() // sends what is left

	trace := collector.Trace(session)
	dispatch, sync, fetch := trace.One(t, "dispatch"), trace.One(t, "sync"), trace.One(t, "fetch")
	require.Empty(t, dispatch.Parent)
	below(t, dispatch, sync)
	below(t, sync, trace.One(t, "pick up"))
	below(t, sync, fetch)
	require.Equal(t, []string{"scheduler", "chunker"}, []string{dispatch.Service, sync.Service})
	require.Equal(t, "fetched", sync.Attributes["echomind.outcome"])
	require.Equal(t, "300", fetch.Attributes["echomind.messages"])

	spans := map[string]tracingtest.Span{}
	for _, s := range trace {
		spans[s.ID] = s
		require.Empty(t, s.Problem, s.Name)
	}
	for name, above := range map[string]string{"publish": "fetch", "process": "publish", "embed": "process", "store": "process"} {
		named := trace.Named(name)
		require.NotEmpty(t, named, name)
		require.Less(t, len(named), 60, name) // of 301 messages
		for _, s := range named {
			require.Equal(t, above, spans[s.Parent].Name, name)
			below(t, spans[s.Parent], s)
		}
	}
	verdicts := 0
	for _, s := range trace.Named("complete") {
		if s.Attributes["echomind.verdict"] == "completed" {
			verdicts++
			require.Equal(t, "semantic", s.Service)
			require.Contains(t, []string{"process", "publish", "fetch"}, spans[s.Parent].Name)
		}
	}
	require.Equal(t, 1, verdicts)
}

func TestAFailedSyncsTraceSaysWhyInTheLedgersWords(t *testing.T) {
	collector := tracingtest.New(t)
	conn, stop := run(t, dataFolder(t), t.TempDir(), traced(collector.Config()))
	id := insert(t, conn, "web", map[string]any{"url": "http://127.0.0.1:1/sEcrEtpath"}) // a private address is refused
	require.Equal(t, "failed", verdict(t, conn, id))
	session, reason := lastRun(t, conn, id)
	stop()
	trace := collector.Trace(session)
	sync := trace.One(t, "sync")
	require.Equal(t, "permanent failure", reason)
	require.Equal(t, reason, sync.Problem)
	require.Equal(t, "failed", sync.Attributes["echomind.verdict"])
	require.NotEmpty(t, trace.One(t, "fetch").Problem)
	require.Empty(t, trace.Named("complete"))
}

func TestATraceHoldsNothingThatAUserWroteAndNoSecret(t *testing.T) {
	collector := tracingtest.New(t)
	to := collector.Config()
	to.OTLP.Headers = "x-api-key=sEcrEtkey"
	root := writeDocs(t, 5)
	conn, stop := run(t, dataFolder(t), root, traced(to), func(cfg *stack.Config) { cfg.Connector.GoogleClientSecret = "sEcrEtclient" })
	ids := []int{
		insert(t, conn, "file", map[string]any{"url": "file://" + root, "include": []string{"**/*", "sEcrEtglob"}}),
		insert(t, conn, "web", map[string]any{"url": "http://sEcrEtuser:sEcrEtpassword@127.0.0.1:1/sEcrEtpath?token=sEcrEt"}),
		insert(t, conn, "file", map[string]any{"sEcrEtkey": "sEcrEtvalue"}),
	}
	var sessions []uuid.UUID
	for _, id := range ids {
		verdict(t, conn, id)
		session, _ := lastRun(t, conn, id)
		sessions = append(sessions, session)
	}
	database := conn.Config().Password
	stop()

	for _, body := range collector.Bodies() {
		require.False(t, bytes.Contains(body, []byte("sEcrEt")))
		require.False(t, bytes.Contains(body, []byte("Zebra")), "a document's text")
		require.False(t, bytes.Contains(body, []byte(root)))
		require.False(t, database != "" && bytes.Contains(body, []byte(database)))
		// What it says also means something to those who know only OTLP.
		require.NoError(t, proto.Unmarshal(body, &collectorpb.ExportTraceServiceRequest{}))
	}
	for _, session := range sessions {
		trace := collector.Trace(session)
		require.NotEmpty(t, trace)
		for _, span := range trace {
			for key := range span.Attributes {
				require.Contains(t, tracing.Keys, key)
			}
			require.Contains(t, tracing.Names, tracing.Name(span.Name))
			require.False(t, strings.Contains(span.Problem, ":"), "an error's text: %s", span.Problem)
		}
	}
}

func TestASyncDoesNotWaitForACollectorThatIsAway(t *testing.T) {
	collector := tracingtest.New(t)
	collector.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done() // it is there, and answers nothing
		return false
	})
	root := writeDocs(t, 50)
	conn, stop := run(t, dataFolder(t), root, traced(collector.Config()))
	id := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	require.Equal(t, "completed", verdict(t, conn, id))
	stop()
}
