package scheduler

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// document publishes one document message and returns its place in the stream.
func (s *stage) document() uint64 {
	s.Helper()
	ack, err := s.servers.Stream.Publish(s.Context(), topology.DocumentSubject, []byte("document"))
	s.do(err)
	return ack.Sequence
}

// forget removes the documents up to a place, as their acknowledgement does.
func (s *stage) forget(through uint64) {
	s.Helper()
	stream, err := s.servers.Stream.Stream(s.Context(), topology.DocumentStream)
	s.do(err)
	s.do(stream.Purge(s.Context(), jetstream.WithPurgeSequence(through+1)))
}

// draining is a connector whose worker has published 2 documents and sync completed, the last of them at the place
// returned.
func (s *stage) draining() (id int32, session uuid.UUID, place uint64) {
	s.Helper()
	id = s.connector(nil)
	session, owner := s.syncing(id, time.Minute)
	for range 3 {
		place = s.document()
	}
	s.exec(`UPDATE scheduler_runs SET total = 2 WHERE id = $1`, session)
	s.do(s.moves.Drain(s.Context(), session, owner, place))
	return id, session, place
}

func (s *stage) lookForDocuments() {
	s.Helper()
	s.do(s.scheduler().FailLostInTransit(s.Context()))
}

func (s *stage) lostInTransit(id int32, session uuid.UUID) {
	s.Helper()
	want(s, true, `SELECT status = 'ERROR' AND failure_count = 0 AND due_reason = 'lost' AND chunking_session IS NULL
		AND next_sync_at <= clock_timestamp() FROM connectors WHERE id = $1`, id)
	want(s, "failed: lost in transit", `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, session)
}

func (s *stage) stillDraining(id int32, session uuid.UUID) {
	s.Helper()
	want(s, true, `SELECT c.status = 'SYNCING' AND c.chunking_session = $2 AND r.status = 'running'
		FROM connectors c JOIN scheduler_runs r ON r.id = $2 WHERE c.id = $1`, id, session)
}

func TestADrainingRunWhoseDocumentsWaitIsLeftAlone(t *testing.T) {
	s := setStage(t)
	id, session, place := s.draining()
	s.lookForDocuments()
	s.stillDraining(id, session)
	s.forget(place - 1)
	s.document()
	s.lookForDocuments()
	s.stillDraining(id, session)
}

func TestDocumentsAreLostWhenTheStreamIsPastThem(t *testing.T) {
	s := setStage(t)
	id, session, place := s.draining()
	s.document()
	s.forget(place)
	s.lookForDocuments()
	s.lostInTransit(id, session)
}

func TestDocumentsAreLostWhenTheStreamIsEmpty(t *testing.T) {
	s := setStage(t)
	id, session, place := s.draining()
	s.forget(place)
	s.lookForDocuments()
	s.lostInTransit(id, session)
}

func TestDocumentsAreLostWithAStreamThatWasMadeAgain(t *testing.T) {
	for name, later := range map[string]int{"empty": 0, "with others' documents": 2} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			id, session, _ := s.draining()
			s.do(s.servers.Stream.DeleteStream(t.Context(), topology.DocumentStream))
			s.do(topology.EnsureStreams(t.Context(), s.servers.Stream))
			for range later {
				s.document()
			}
			s.lookForDocuments()
			s.lostInTransit(id, session)
		})
	}
}

func TestDocumentsAreLostWithADeletedStreamWhichIsMadeAgain(t *testing.T) {
	s := setStage(t)
	id, session, _ := s.draining()
	s.do(s.servers.Stream.DeleteStream(t.Context(), topology.DocumentStream))
	s.lookForDocuments()
	s.lostInTransit(id, session)
	_, err := s.servers.Stream.Stream(t.Context(), topology.DocumentStream)
	s.do(err)
}

func TestARunThatBeganToDrainAfterTheQuestionIsLeftAlone(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	before, err := scheduler.queries.DrainingRuns(t.Context())
	s.do(err)
	first, last, err := scheduler.documentsHeld(t.Context())
	s.do(err)
	id, session, _ := s.draining()
	failed, err := scheduler.queries.FailLostInTransit(t.Context(), dbgen.FailLostInTransitParams{
		Sessions: before, FirstSeq: first, LastSeq: last,
	})
	s.do(err)
	if len(failed) != 0 {
		t.Errorf("connectors %v were failed", failed)
	}
	s.stillDraining(id, session)
}

func TestARunWithEverythingStoredIsLeftToItsCompletion(t *testing.T) {
	s := setStage(t)
	id, session, place := s.draining()
	s.exec(`UPDATE scheduler_runs SET stored = total WHERE id = $1`, session)
	s.forget(place)
	s.lookForDocuments()
	s.stillDraining(id, session)
	ended, err := s.moves.Complete(t.Context(), session)
	s.do(err)
	if ended.Verdict != "completed" {
		t.Errorf("verdict %q", ended.Verdict)
	}
}

func TestASyncCompletedThatNeverArrivedIsLost(t *testing.T) {
	s := setStage(t)
	id, session, place := s.draining()
	s.exec(`UPDATE scheduler_runs SET total = NULL WHERE id = $1`, session)
	s.forget(place)
	s.lookForDocuments()
	s.lostInTransit(id, session)
}

func TestARunAtWorkIsNotLostInTransit(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session, _ := s.syncing(id, time.Minute)
	s.forget(s.document())
	s.lookForDocuments()
	s.stillDraining(id, session)
}

func TestAConnectorWhoseDocumentsWereLostRunsAgainAndKeepsItsCursor(t *testing.T) {
	s := setStage(t)
	id, session, place := s.draining()
	s.exec(`UPDATE scheduler_runs SET new_state = '{"cursor":2}' WHERE id = $1`, session)
	s.forget(place)
	s.lookForDocuments()
	s.do(s.scheduler().Tick(t.Context()))
	want(s, "lost", `SELECT r.trigger FROM connectors c JOIN scheduler_runs r ON r.id = c.chunking_session
		WHERE c.id = $1 AND c.status = 'PENDING'`, id)
	want(s, "{}", `SELECT state::text FROM connectors WHERE id = $1`, id)
}

func TestABrokerThatIsAwayLosesNothingInTransit(t *testing.T) {
	s := setStage(t)
	id, session, _ := s.draining()
	s.stopBroker()
	if err := s.scheduler().FailLostInTransit(t.Context()); err == nil {
		t.Error("the look found nothing wrong with a broker that is away")
	}
	s.stillDraining(id, session)
}
