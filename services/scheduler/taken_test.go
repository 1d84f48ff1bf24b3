package scheduler

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
	"github.com/echomind/sync/testonly/testkit"
)

// setSmallStage is a stage whose broker has little room for all streams together.
func setSmallStage(t *testing.T, bytes int64) *stage {
	t.Helper()
	t.Parallel()
	broker, err := natsserver.Start(natsserver.Config{
		Dir: filepath.Join(t.TempDir(), "nats"), Volatile: true, Log: testkit.Logger(t), MaxStore: bytes,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, url: testkit.Database(t, db.Up), broker: broker}
	js := testkit.JetStream(t, broker.URL())
	for _, declared := range topology.Streams(bytes/8, bytes/8, bytes/8) {
		_, err := js.CreateStream(t.Context(), declared)
		s.do(err)
	}
	servers, err := connect.Open(t.Context(), s.config().Common, "test", s.process())
	s.do(err)
	t.Cleanup(func() {
		s.do(servers.Close())
		s.do(broker.Stop(context.Background()))
	})
	s.servers, s.moves = servers, lifecycle.New(servers.Pool)
	return s
}

// looksFor looks so often, each time as if the longest grace had passed.
func (s *stage) looksFor(scheduler *Scheduler, times int) {
	s.Helper()
	for range times {
		s.age(2 * maxLostGrace)
		s.do(scheduler.Republish(s.Context()))
	}
}

const failNotTaken = `SELECT count(*) FROM moves.fail_not_taken(100)`

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

// lateRun is a run whose message was published often, and is gone; and what publishes it again.
func (s *stage) lateRun() (*Scheduler, []Trigger) {
	s.Helper()
	s.connector(nil)
	scheduler := s.scheduler()
	s.claim(scheduler)
	s.exec(`UPDATE open_runs SET dispatches = 5`)
	return scheduler, s.again(scheduler)
}

// again is what publishes a lost message once more, up to the publish.
func (s *stage) again(scheduler *Scheduler) []Trigger {
	s.Helper()
	s.age(2 * maxLostGrace)
	rows, err := scheduler.queries.Redispatch(s.Context(), dbgen.RedispatchParams{
		Type: "web", Grace: time.Second, MaxGrace: time.Second, Batch: 10, MostBytes: mostBatchBytes,
	})
	s.do(err)
	return repeats("web", rows)
}

func TestOnlyAMessageThatTheBrokerIsKnownToHaveTakenCounts(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(s *stage, scheduler *Scheduler, batch []Trigger)
		counts  int
	}{
		"it is acknowledged": {func(s *stage, scheduler *Scheduler, batch []Trigger) {
			scheduler.dispatcher.publish(s.Context(), batch)
		}, 1},
		"the process dies before the publish": {func(*stage, *Scheduler, []Trigger) {}, 0},
		"the process dies before the acknowledgement is written down": {func(s *stage, _ *Scheduler, batch []Trigger) {
			msg, err := message(s.Context(), &batch[0])
			s.do(err)
			_, err = s.servers.Stream.PublishMsg(s.Context(), msg)
			s.do(err)
		}, 0},
		"Postgres is away when the acknowledgement is written down": {func(s *stage, _ *Scheduler, batch []Trigger) {
			b := s.behind()
			b.postgres.Refuse(true)
			b.postgres.Cut()
			b.dispatcher.publish(s.Context(), batch)
			if len(s.messages("web")) != 1 {
				s.Error("it was not published")
			}
		}, 0},
		"the acknowledgement is lost": {func(s *stage, scheduler *Scheduler, batch []Trigger) {
			_, err := s.servers.NATS.Subscribe("nobody.answers", func(*nats.Msg) {})
			s.do(err)
			scheduler.dispatcher.stream = unanswered{s.servers.Stream}
			scheduler.dispatcher.publish(s.Context(), batch)
			if len(s.messages("web")) != 1 {
				s.Error("it was not published")
			}
			scheduler.dispatcher.stream = s.servers.Stream
		}, 0},
		"another scheduler publishes it meanwhile, and dies before it has": {func(s *stage, scheduler *Scheduler, batch []Trigger) {
			s.again(s.scheduler())
			scheduler.dispatcher.publish(s.Context(), batch)
		}, 0},
		"two schedulers publish it": {func(s *stage, scheduler *Scheduler, batch []Trigger) {
			other := s.again(s.scheduler())
			scheduler.dispatcher.publish(s.Context(), other)
			scheduler.dispatcher.publish(s.Context(), batch)
		}, 1},
		"it is picked up before the acknowledgement is written down": {func(s *stage, scheduler *Scheduler, batch []Trigger) {
			s.pickUp(batch[0].ID, time.Minute)
			scheduler.dispatcher.publish(s.Context(), batch)
			want(s, false, `SELECT acknowledged FROM open_runs`)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			scheduler, batch := s.lateRun()
			c.happens(s, scheduler, batch)
			s.purge()
			s.again(scheduler)
			want(s, c.counts, `SELECT not_taken FROM open_runs`)
			want(s, false, `SELECT acknowledged FROM open_runs`)
		})
	}
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
