//go:build !race

package scheduler

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// The server's store is full with somebody else's messages, or the account's is: the stream answers, has room by its own limits, and
// refuses each message.
func TestWhatAFullServerRefusesIsAWaitAndNoFailure(t *testing.T) {
	s := setSmallStage(t, 8<<20)
	_, err := s.servers.Stream.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ELSEWHERE", Subjects: []string{"elsewhere"}})
	s.do(err)
	for err == nil {
		_, err = s.servers.Stream.Publish(t.Context(), "elsewhere", make([]byte, 512<<10))
	}
	s.connectors(2)
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	s.do(scheduler.Tick(t.Context()))
	want(s, 2, allPending)
	s.looksFor(scheduler, 24) // of a type that is braked, one each
	want(s, true, `SELECT bool_and(dispatches > 11 AND not_taken = 0 AND publish_error = 'insufficient resources') FROM open_runs`)
	want(s, 0, failNotTaken)
	want(s, 2, allPending)
	want(s, "insufficient resources", `SELECT max(type_publish_error) FROM connector_evidence`)

	s.do(s.servers.Stream.DeleteStream(t.Context(), "ELSEWHERE"))
	s.looksFor(scheduler, 1)
	s.queued(s.session(1), s.session(2))
	want(s, 0, `SELECT count(*) FROM open_runs WHERE publish_error IS NOT NULL`)
	want(s, 0, `SELECT count(*) FROM connector_evidence WHERE type_publish_error IS NOT NULL`)
	want(s, 0, failNotTaken)
}

// A subscriber acknowledges by mistake what it cannot handle.
func TestAMessageThatIsTakenTenTimesAndGoneEachTimeFailsItsRun(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	for times := 1; times < notedFrom; times++ {
		want(s, false, `SELECT acknowledged FROM open_runs`) // the first times cost no second write
		s.purge()
		s.looksFor(scheduler, 1)
	}
	for taken := range 10 {
		want(s, taken, `SELECT not_taken FROM open_runs`)
		want(s, true, `SELECT acknowledged FROM open_runs`)
		want(s, 0, failNotTaken)
		s.do(s.acknowledge("web"))
		s.looksFor(scheduler, 1)
	}
	want(s, 1, failNotTaken)
	want(s, "ERROR 1", `SELECT status || ' ' || failure_count FROM connectors WHERE id = $1`, id)
	want(s, true, `SELECT reason = 'message not taken' AND error_message LIKE '%NATS took it 10 times, each time it left the stream%'
		FROM scheduler_runs WHERE connector_id = $1`, id)
}

// The holder of the run is picking it up.
func TestTheAnswerOfTheBrokerWaitsForNobodyWhoHoldsARun(t *testing.T) {
	s := setStage(t)
	s.connectors(2)
	scheduler := s.scheduler()
	s.claim(scheduler)
	s.exec(`UPDATE open_runs SET dispatches = 5`)
	batch := s.again(scheduler)
	tx, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM open_runs WHERE id = $1 FOR UPDATE`, batch[0].Session)
	s.do(err)
	scheduler.dispatcher.publish(t.Context(), batch)
	want(s, batch[1].Session, `SELECT id FROM open_runs WHERE acknowledged`)
	s.do(tx.Rollback(t.Context()))
}
