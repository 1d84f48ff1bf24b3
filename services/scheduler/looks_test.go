//go:build !race

package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/postgres"
)

// inTheStream is how many triggers wait.
func (s *stage) inTheStream() int {
	s.Helper()
	stream, err := s.servers.Stream.Stream(s.Context(), topology.SyncStream)
	s.do(err)
	return int(stream.CachedInfo().State.Msgs)
}

// forge publishes a trigger of nobody's that says it was dispatched in an hour.
func (s *stage) forge() {
	s.Helper()
	msg := nats.NewMsg("connector.sync.web")
	msg.Header.Set(topology.HeaderDispatchedAt, wire.FormatTime(time.Now().Add(time.Hour)))
	_, err := s.servers.Stream.PublishMsg(s.Context(), msg)
	s.do(err)
}

// looksOften lets a scheduler look fifty times, and says what is then published and queued.
func (s *stage) looksOften(scheduler *Scheduler, dispatches int) {
	s.Helper()
	for range 50 {
		s.do(scheduler.Republish(s.Context()))
	}
	want(s, 3, fmt.Sprintf(`SELECT count(*) FROM open_runs WHERE dispatches = %d`, dispatches))
	if n := s.inTheStream(); n != 4 {
		s.Errorf("%d messages, want 4", n)
	}
}

func TestAMessageOfTheFutureIsNoEvidenceThatOthersWereLost(t *testing.T) {
	s := setStage(t)
	s.forge()
	s.connectors(3)
	s.do(s.scheduler().Tick(t.Context()))
	s.looksOften(s.scheduler(func(cfg *Config) { cfg.LostGraceSeconds = 0 }), 1)
}

func TestBehindAMessageOfTheFutureALostOneIsRepeatedOnceAGrace(t *testing.T) {
	s := setStage(t)
	s.connectors(3)
	s.do(s.scheduler().Tick(t.Context()))
	s.purge()
	s.forge()
	s.age(pastTheGrace)
	s.looksOften(s.scheduler(), 2)
}

func TestThousandsOfLostMessagesAreRepeatedOnceEachByLooksThatEnd(t *testing.T) {
	s := setStage(t)
	s.connectors(3000)
	s.do(s.scheduler().Tick(t.Context()))
	s.purge()
	s.age(pastTheGrace)
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 100 })
	scheduler.lookTime = 50 * time.Millisecond
	longest, before := time.Duration(0), 3000
	looks := 0
	for found := (outcome{left: before, late: true}); found.late; looks++ {
		began := time.Now()
		var err error
		found, err = scheduler.lookForMessages(t.Context())
		s.do(err)
		longest = max(longest, time.Since(began))
		if left := one[int](s, `SELECT count(*) FROM open_runs WHERE dispatches = 1`); found.left != left || left >= before && before > 0 {
			t.Errorf("look %d says that %d are left, and %d of %d are", looks, found.left, left, before)
		} else {
			before = left
		}
	}
	t.Logf("%d looks, the longest took %s", looks, longest)
	if looks < 3 {
		t.Errorf("%d looks: none ended early", looks)
	}
	s.do(scheduler.Republish(t.Context()))
	want(s, 3000, `SELECT count(*) FROM open_runs WHERE dispatches = 2`)
	if n := s.inTheStream(); n != 3000 {
		t.Errorf("%d messages, want 3000", n)
	}
}

func TestARescueIsInTimeWhileThousandsOfMessagesAreRepeated(t *testing.T) {
	s := setStage(t)
	s.connectors(3000)
	s.do(s.scheduler().Tick(t.Context()))
	s.purge()
	id := one[int32](s, `SELECT min(id) FROM connectors`)
	s.pickUp(id, gone)
	s.age(pastTheGrace)
	scheduler := s.patient(0, rarely, func(cfg *Config) { cfg.ClaimBatch = 5 })
	scheduler.lookTime = 20 * time.Millisecond
	s.run(scheduler)
	s.eventually(10*time.Second, s.countIs(1, `SELECT count(*) FROM open_runs WHERE trigger = 'rescue'`))
	if left := one[int](s, `SELECT count(*) FROM open_runs WHERE dispatches = 1 AND trigger <> 'rescue'`); left == 0 {
		t.Error("it waited until all were repeated")
	}
	s.eventually(2*time.Minute, s.countIs(2999, `SELECT count(*) FROM open_runs WHERE dispatches = 2`))
	s.eventually(5*time.Second, func() error {
		if n := s.inTheStream(); n != 3000 {
			return fmt.Errorf("%d messages, want 3000", n)
		}
		return nil
	})
	want(s, 0, `SELECT count(*) FROM open_runs WHERE dispatches > 2`)
}

func TestATypeThatCannotBeRepeatedDoesNotKeepTheNextFromItsTurn(t *testing.T) {
	s := setStage(t)
	first, next := s.connector(nil), s.connector(row{"type": "file"})
	s.do(s.scheduler().Tick(t.Context()))
	s.purge()
	s.age(pastTheGrace)
	s.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - interval '1 hour' WHERE connector_id = $1`, first)
	holder, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = holder.Exec(t.Context(), `SELECT 1 FROM open_runs WHERE connector_id = $1 FOR UPDATE`, first)
	s.do(err)
	scheduler := s.scheduler()
	found, err := scheduler.lookForMessages(t.Context())
	if !postgres.Locked(err) {
		t.Errorf("the look said %v of a run that somebody holds", err)
	}
	if found.left > 0 { // the wait took the look's time: the next look begins with what is left
		_, err = scheduler.lookForMessages(t.Context())
		if err != nil && !postgres.Locked(err) {
			t.Error(err)
		}
	}
	want(s, 2, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, next)
	s.do(holder.Rollback(t.Context()))
	s.do(scheduler.Republish(t.Context()))
	want(s, 2, `SELECT dispatches FROM open_runs WHERE connector_id = $1`, first)
}

func TestALookTakesWhatTheStreamHasRoomForAndSaysWhatIsLeft(t *testing.T) {
	s := setStage(t)
	s.connectors(10)
	s.connector(row{"type": "file"})
	s.do(s.scheduler().Tick(t.Context()))
	s.purge()
	s.age(pastTheGrace)
	scheduler := s.patient(3, rarely)
	found, err := scheduler.lookForMessages(t.Context())
	s.do(err)
	if found.left != 0 {
		t.Errorf("%d are left of a look that came to its end", found.left)
	}
	s.purge()
	s.age(10 * time.Minute)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 4 })
	found, err = scheduler.lookForMessages(t.Context())
	s.do(err)
	if found.left != 7 || found.late {
		t.Errorf("the look left %+v, want 7 for which the stream has no room", found)
	}
	if n := s.inTheStream(); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = -1 })
	s.do(scheduler.Republish(t.Context()))
	want(s, 11, `SELECT count(*) FROM open_runs WHERE dispatches = 3`)
}
