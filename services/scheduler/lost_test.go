//go:build !race

package scheduler

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/streams"
)

func (s *stage) republish() {
	s.Helper()
	s.do(s.scheduler().Republish(s.Context()))
}

func TestAMessageThatWasNeverPublishedIsPublishedUnderItsSession(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session := s.claim(s.scheduler())[0].Session // and here the process dies
	s.republish()
	s.queued() // it may still be on its way
	s.age(pastTheGrace)
	s.republish()
	s.queued(session)
	want(s, 2, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, id)
	at, err := topology.DispatchedAt(s.messages("web")[0].header)
	s.do(err)
	want(s, true, `SELECT dispatched_at = $2 AND dispatched_at > now() - interval '10 s' FROM open_runs WHERE connector_id = $1`, id, at)
	want(s, 1, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1`, id)
}

func TestOfSeveralSchedulersOnePublishesALostMessage(t *testing.T) {
	s := setStage(t)
	s.connectors(400)
	s.claim(s.scheduler())
	s.age(pastTheGrace)
	var group sync.WaitGroup
	begin := make(chan struct{})
	for range 4 {
		scheduler := s.scheduler()
		group.Go(func() {
			<-begin
			if err := scheduler.Republish(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	group.Wait()
	want(s, 400, `SELECT count(*) FROM open_runs WHERE dispatches = 2`)
	if n := len(s.messages("web")); n != 400 {
		t.Errorf("%d messages, want 400", n)
	}
}

func TestTheGraceDoublesUpToAMinute(t *testing.T) {
	for dispatches, grace := range map[int]time.Duration{
		1: 15 * time.Second, 2: 30 * time.Second, 3: time.Minute, 4: time.Minute, 9: time.Minute, 5000: time.Minute,
	} {
		t.Run(fmt.Sprintf("published %d times", dispatches), func(t *testing.T) {
			s := setStage(t)
			id := s.connector(nil)
			session := s.claim(s.scheduler())[0].Session
			s.exec(`UPDATE open_runs SET dispatches = $1, dispatched_at = clock_timestamp() - $2::interval`,
				dispatches, grace-4*time.Second)
			s.republish()
			s.queued()
			s.exec(`UPDATE open_runs SET dispatched_at = clock_timestamp() - $1::interval`, grace+time.Second)
			s.republish()
			s.queued(session)
			want(s, dispatches+1, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, id)
		})
	}
}

func TestAPurgedStreamIsFilledAgain(t *testing.T) {
	s := setStage(t)
	s.connectors(3)
	s.do(s.scheduler().Tick(t.Context()))
	s.purge()
	s.age(pastTheGrace)
	s.republish()
	want(s, 3, `SELECT count(*) FROM open_runs WHERE dispatches = 2`)
	if n := len(s.messages("web")); n != 3 {
		t.Errorf("%d messages, want 3", n)
	}
}

func TestADeletedStreamIsMadeAgainAndFilled(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.do(s.scheduler().Tick(t.Context()))
	s.do(s.servers.Stream.DeleteStream(t.Context(), topology.SyncStream))
	s.age(pastTheGrace)
	s.republish()
	s.queued(s.session(id))
}

func TestWipedStorageIsMadeAgainAndFilled(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	s.stopBroker()
	s.age(pastTheGrace)
	if err := scheduler.Republish(t.Context()); err == nil {
		t.Error("the look found nothing wrong with a broker that is away")
	}
	want(s, 1, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, id)
	s.do(s.broker.Restart(true))
	s.eventually(15*time.Second, func() error { return scheduler.Republish(t.Context()) })
	s.queued(s.session(id))
}

func TestAMessageIsFoundToBeLostBehindOneThatAKilledServerBroughtBackThoughItWasAcknowledged(t *testing.T) {
	s := setStage(t)
	first := s.connector(nil)
	scheduler := s.scheduler()
	trigger := s.claim(scheduler)[0]
	trigger.DispatchedAt = trigger.DispatchedAt.Add(-time.Hour)
	scheduler.dispatcher.publish(t.Context(), []Trigger{trigger})
	s.pickUp(first, gone)
	s.do(s.broker.RestartAsKilled(topology.SyncStream, func() error { return s.acknowledge("web") }))
	s.eventually(15*time.Second, func() error {
		_, err := s.servers.Stream.Stream(t.Context(), topology.SyncStream)
		return err
	})
	s.queued(trigger.Session)

	s.connector(nil)
	lost := s.claim(scheduler)[0].Session // and here the process dies
	s.age(pastTheGrace)
	s.do(scheduler.Republish(t.Context()))
	s.queued(lost)
}

func TestAQueuedMessageIsNeverRepeatedHoweverOld(t *testing.T) {
	s := setStage(t)
	s.connectors(3)
	s.do(s.scheduler().Tick(t.Context()))
	s.republish()
	want(s, 0, `SELECT count(*) FROM open_runs WHERE dispatches > 1`)
	if n := len(s.messages("web")); n != 3 {
		t.Fatalf("%d messages, want 3", n)
	}
	// Everything was dispatched a day ago, as the oldest message says.
	s.purge()
	s.age(24 * time.Hour)
	scheduler := s.scheduler()
	for _, m := range s.inFlight() {
		scheduler.dispatcher.publish(t.Context(), []Trigger{m})
	}
	s.republish()
	want(s, 0, `SELECT count(*) FROM open_runs WHERE dispatches > 1`)
}

func TestAMessageLostAmongQueuedOnesIsFound(t *testing.T) {
	s := setStage(t)
	lost, queued := s.connector(nil), s.connector(nil)
	scheduler := s.scheduler()
	s.claim(scheduler)
	s.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - interval '2 hours' WHERE connector_id = $1`, lost)
	s.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - interval '1 hour' WHERE connector_id = $1`, queued)
	scheduler.dispatcher.publish(t.Context(), s.inFlight()[1:])
	s.republish()
	want(s, 2, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, lost)
	want(s, 1, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, queued)
	s.queued(s.session(lost), s.session(queued))
}

func TestADeliveredMessageIsNotRepeated(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.do(s.scheduler().Tick(t.Context()))
	declared, err := topology.SyncConsumer("web")
	s.do(err)
	consumer, err := streams.EnsureConsumer(t.Context(), s.servers.Stream, topology.SyncStream, declared)
	s.do(err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
	s.do(err)
	s.age(14 * time.Second)
	s.republish()
	want(s, 1, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, id)

	// Once somebody acknowledges it by mistake it is gone.
	s.do(msg.DoubleAck(t.Context()))
	s.age(pastTheGrace)
	s.republish()
	want(s, 2, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, id)
}

func TestAConnectorThatWasPickedUpIsNotRepeated(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.syncing(id, time.Minute)
	s.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - interval '1 hour'`)
	s.republish()
	s.queued()
}

func TestAnotherTypesQueueSaysNothingAboutALostMessage(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.connector(row{"type": "file"})
	s.claim(s.scheduler())
	s.do(s.scheduler().Tick(t.Context()))
	s.age(pastTheGrace)
	s.republish()
	s.queued(s.session(id))
}
