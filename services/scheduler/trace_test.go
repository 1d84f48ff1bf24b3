package scheduler

import (
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/testonly/tracingtest"
)

// collect has the spans of the stage's schedulers sent to a collector.
func (s *stage) collect() *tracingtest.Collector {
	s.Helper()
	collector := tracingtest.New(s)
	tracer, err := tracing.Open(collector.Config(), "scheduler", s.process().Log)
	s.do(err)
	s.servers.Tracer = tracer // closed with them
	return collector
}

// comesFrom is the span that the only message of the sync stream comes from.
func (s *stage) comesFrom() string {
	s.Helper()
	stream, err := s.servers.Stream.Stream(s.Context(), topology.SyncStream)
	s.do(err)
	msg, err := stream.GetLastMsgForSubject(s.Context(), "connector.sync.web")
	s.do(err)
	return msg.Header.Get("Traceparent")
}

func TestATriggerThatIsPublishedAgainStaysInItsTrace(t *testing.T) {
	s := setStage(t)
	collector := s.collect()
	id := s.connector(nil)
	s.do(s.scheduler().Tick(s.Context()))
	session := s.session(id)
	stream, err := s.servers.Stream.Stream(s.Context(), topology.SyncStream)
	s.do(err)
	s.do(stream.Purge(s.Context()))
	s.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - interval '1 minute'`)
	s.do(s.scheduler().Republish(s.Context()))
	s.do(s.servers.Tracer.Close())

	dispatches := collector.Trace(session).Named("dispatch")
	require.Len(t, dispatches, 2)
	require.Empty(t, dispatches[0].Parent)
	require.Equal(t, dispatches[0].ID, dispatches[1].Parent)
	require.Equal(t, "00-"+dispatches[1].Trace+"-"+dispatches[1].ID+"-01", s.comesFrom())
	require.Equal(t, "web", dispatches[1].Attributes["echomind.type"])
}

func TestARescueEndsOneTraceAndBeginsAnotherThatIsLinkedToIt(t *testing.T) {
	s := setStage(t)
	collector := s.collect()
	id := s.connector(nil)
	old := s.syncing(id, gone).Run
	s.rescue()
	session := s.session(id)
	s.do(s.servers.Tracer.Close())

	end, begin := collector.Trace(old).One(t, "rescue"), collector.Trace(session).One(t, "dispatch")
	require.Equal(t, "worker lost", end.Problem)
	require.Equal(t, []string{end.Trace + ":" + end.Parent}, begin.Links)
	require.Equal(t, "rescue", begin.Attributes["echomind.due_reason"])
}

func TestATriggerThatIsNotAcknowledgedIsSaidInTheTrace(t *testing.T) {
	s := setStage(t)
	collector := s.collect()
	session := uuid.New()
	s.do(s.servers.Stream.DeleteStream(s.Context(), topology.SyncStream))
	d := newDispatcher(s.servers, newMetrics(s.process().Metrics), s.process().Log)
	d.publish(s.Context(), []Trigger{{ID: 1, Type: "web", UserID: 1, Scope: "user", Session: session}})
	s.do(s.servers.Tracer.Close())
	require.Equal(t, "not acknowledged", collector.Trace(session).One(t, "dispatch").Problem)
	_, err := s.servers.Stream.Stream(s.Context(), topology.SyncStream)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}
