package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/services/scheduler/internal/dbgen"

	"github.com/echomind/sync/contract/topology"
)

// dueAtRest fails the test unless nothing is in flight and this many connectors are due.
func (s *stage) dueAtRest(n int) {
	s.Helper()
	want(s, 0, `SELECT count(*) FROM connectors WHERE run_id IS NOT NULL`)
	want(s, n, `SELECT count(*) FROM connectors WHERE status = 'ACTIVE' AND next_sync_at <= clock_timestamp()`)
}

// stopBroker stops NATS and waits until the connection knows.
func (s *stage) stopBroker() {
	s.Helper()
	s.do(s.broker.Stop(s.Context()))
	s.eventually(5*time.Second, func() error {
		if s.servers.NATS.IsConnected() {
			return errors.New("still connected")
		}
		return nil
	})
}

func TestNothingIsClaimedWhileTheBrokerIsAway(t *testing.T) {
	s := setStage(t)
	s.connectors(3)
	scheduler := s.scheduler()
	s.stopBroker()
	s.do(scheduler.Tick(t.Context()))
	s.dueAtRest(3)

	s.do(s.broker.Restart(false))
	s.eventually(15*time.Second, func() error {
		if err := scheduler.Tick(t.Context()); err != nil {
			return err
		}
		return s.countIs(3, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)()
	})
}

func TestNothingIsClaimedWhileTheStreamIsFull(t *testing.T) {
	for name, c := range map[string]struct {
		most jetstream.StreamConfig
		free func(*jetstream.StreamConfig)
	}{
		"of messages": {jetstream.StreamConfig{MaxMsgs: 2, MaxBytes: -1}, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = -1 }},
		"of bytes":    {jetstream.StreamConfig{MaxMsgs: -1, MaxBytes: 300}, func(cfg *jetstream.StreamConfig) { cfg.MaxBytes = -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.connectors(2)
			scheduler := s.scheduler()
			s.do(scheduler.Tick(t.Context()))
			s.exec(`DELETE FROM connectors`)
			s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs, cfg.MaxBytes = c.most.MaxMsgs, c.most.MaxBytes })
			s.connectors(3)
			for range 3 {
				s.do(scheduler.Tick(t.Context()))
				s.do(s.scheduler().Tick(t.Context()))
			}
			s.dueAtRest(3)

			s.limit(c.free)
			s.do(scheduler.Tick(t.Context()))
			want(s, 3, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
		})
	}
}

// Another lane may find room before anybody asks whether the stream has any.
func TestATypeForWhichTheStreamHadNoRoomAsksForAnotherLookByItself(t *testing.T) {
	s := setStage(t)
	s.connectors(2)
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 1 })
	web := &lane{of: dbgen.DueTypesRow{Name: "web"}}
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 1 })
	for _, claimed := range []int{1, 1} {
		again, err := scheduler.lanes.empty(t.Context(), web)
		s.do(err)
		want(s, claimed, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
		if again != probeEvery {
			t.Errorf("the stream is full: again after %s, want %s", again, probeEvery)
		}
	}
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs, cfg.MaxMsgSize = -1, 10 })
	again, err := scheduler.lanes.empty(t.Context(), web)
	s.do(err)
	if again != pollEvery {
		t.Errorf("the stream refuses: again after %s, want %s", again, pollEvery)
	}
}

func TestOnlyAsManyAreClaimedAsTheStreamHasRoomFor(t *testing.T) {
	s := setStage(t)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 4 })
	s.connectors(10)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 4, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	if n := len(s.messages("web")); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
}

func TestAStreamThatRefusesCostsOneConnectorATick(t *testing.T) {
	s := setStage(t)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize = 10 })
	s.connectors(10)
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 2 })
	s.do(scheduler.Tick(t.Context()))
	want(s, 2, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 3, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)

	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize = -1 })
	s.do(scheduler.Tick(t.Context()))
	want(s, 10, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	s.age(time.Minute)
	s.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - interval '1 minute'
		WHERE id IN (SELECT id FROM open_runs ORDER BY dispatched_at LIMIT 3)`)
	s.purge()
	s.do(scheduler.Republish(t.Context()))
	if n := len(s.messages("web")); n != 10 {
		t.Errorf("%d messages, want one for each connector", n)
	}
}

func TestADeletedStreamIsMadeAgainBeforeAnythingIsClaimed(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.connector(nil)
	s.do(scheduler.Tick(t.Context()))
	s.do(s.servers.Stream.DeleteStream(t.Context(), topology.SyncStream))
	id := s.connector(nil)
	s.do(scheduler.Tick(t.Context()))
	s.queued(s.session(id))
}

func TestADeletedStreamThatCannotBeMadeAgainLeavesEverythingDue(t *testing.T) {
	s := setStage(t)
	s.do(s.servers.Stream.DeleteStream(t.Context(), topology.SyncStream))
	_, err := s.servers.Stream.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "FOREIGN", Subjects: []string{"connector.sync.other"},
	})
	s.do(err)
	s.connectors(2)
	s.do(s.scheduler().Tick(t.Context()))
	s.dueAtRest(2)
}

func TestARunningSchedulerRecoversByItselfFromABrokerThatWasAway(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler(func(cfg *Config) { cfg.CheckIntervalSeconds = 3600 })
	s.stopBroker()
	s.run(scheduler)
	s.connectors(2)
	s.eventually(5*time.Second, func() error {
		if !scheduler.dispatcher.waiting() {
			return errors.New("it has not noticed")
		}
		return nil
	})
	s.dueAtRest(2)
	s.do(s.broker.Restart(false))
	s.eventually(20*time.Second, s.countIs(2, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`))
}

func TestAPublishThatNobodyAnswersEndsWithItsDeadline(t *testing.T) {
	s := setStage(t)
	s.connector(nil)
	scheduler := s.scheduler()
	scheduler.dispatcher.within = publishTimeout
	batch := s.claim(scheduler)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.NoAck = true })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	scheduler.dispatcher.publish(ctx, batch)
	if ctx.Err() != nil || !scheduler.dispatcher.waiting() {
		t.Errorf("publish without an acknowledgement: %v, waiting %v", ctx.Err(), scheduler.dispatcher.waiting())
	}
}
