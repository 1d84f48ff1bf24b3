package scheduler

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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
