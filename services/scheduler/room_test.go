package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// silentFor sends what goes to a type where nobody answers, as where the user may not publish there.
type silentFor struct {
	jetstream.JetStream
	kind string
}

func (s silentFor) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if strings.HasSuffix(msg.Subject, s.kind) {
		elsewhere := *msg
		elsewhere.Subject = "nobody.answers"
		msg = &elsewhere
	}
	return s.JetStream.PublishMsgAsync(msg, opts...)
}

func TestATypeThatGetsNoAnswerBrakesItselfAndNoOther(t *testing.T) {
	s := setStage(t)
	_, err := s.servers.NATS.Subscribe("nobody.answers", func(*nats.Msg) {})
	s.do(err)
	s.servers.Stream = silentFor{s.servers.Stream, "file"}
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 5 })
	for range 20 {
		s.connector(row{"type": "file"})
	}
	s.do(scheduler.Tick(t.Context()))
	want(s, 5, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	s.connectors(20)
	s.do(scheduler.Tick(t.Context()))
	want(s, 20, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND type = 'web'`)
	want(s, 6, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND type = 'file'`)
	if scheduler.dispatcher.refusedOf("web") > 0 || scheduler.dispatcher.refusedOf("file") == 0 {
		t.Error("web is braked, or file is not")
	}
}

// stuck publishes nothing until it is let go.
type stuck struct {
	jetstream.JetStream
	begun, goesOn chan struct{}
}

func (s stuck) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	s.begun <- struct{}{}
	<-s.goesOn
	return s.JetStream.PublishMsgAsync(msg, opts...)
}

func TestATypeThatIsBrakedHoldsNoPlaceWhileItWaitsForAnAnswer(t *testing.T) {
	s := setStage(t)
	slow := stuck{s.servers.Stream, make(chan struct{}, 1), make(chan struct{})}
	s.servers.Stream = slow
	s.connectors(1)
	scheduler := s.scheduler()
	scheduler.dispatcher.judge("web", 100, true)
	s.do(scheduler.lanes.look(t.Context(), nil))
	<-slow.begun
	if !scheduler.lanes.places.TryAcquire(mostBatches) {
		t.Error("its place is taken")
	}
	close(slow.goesOn)
	scheduler.lanes.wait()
}

func TestTypesThatAreBrakedDoNotTakeTheSameRoom(t *testing.T) {
	s := setStage(t)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 1 })
	kinds := []string{"web", "file", "onedrive", "google_drive", "teams"}
	slow := stuck{s.servers.Stream, make(chan struct{}, len(kinds)), make(chan struct{})}
	s.servers.Stream = slow
	scheduler := s.scheduler()
	for _, kind := range kinds {
		s.connector(row{"type": kind})
		scheduler.dispatcher.judge(kind, 100, true)
	}
	s.do(scheduler.lanes.look(t.Context(), nil))
	<-slow.begun
	scheduler.lanes.mu.Lock()
	if n := scheduler.lanes.promised; n != 1 {
		t.Errorf("room for %d messages is taken while one is being published", n)
	}
	scheduler.lanes.mu.Unlock()
	close(slow.goesOn)
	scheduler.lanes.wait()
	want(s, 1, allPending)
	if n := scheduler.lanes.promised; n != 0 {
		t.Errorf("%d messages are still promised", n)
	}
}

// lostOf is one connector of type file, which gets no answer, and n of type web, whose workers are lost, and whose messages are gone.
func (s *stage) lostOf(n int, config string) {
	s.Helper()
	_, err := s.servers.NATS.Subscribe("nobody.answers", func(*nats.Msg) {})
	s.do(err)
	s.connector(row{"type": "file"})
	s.large(n, config)
	s.do(s.scheduler().Tick(s.Context()))
	for id := range int32(n + 1) {
		s.pickUp(id+1, gone)
	}
	s.purge()
	s.servers.Stream = silentFor{s.servers.Stream, "file"}
}

func TestARescueOfATypeThatGetsNoAnswerBrakesNoOther(t *testing.T) {
	s := setStage(t)
	s.lostOf(9, `'{}'::jsonb`)
	scheduler := s.scheduler(impatient)
	s.do(scheduler.Rescue(t.Context()))
	want(s, 10, `SELECT count(*) FROM open_runs WHERE trigger = 'rescue'`)
	if scheduler.dispatcher.refusedOf("web") > 0 || scheduler.dispatcher.refusedOf("file") == 0 {
		t.Error("web is braked, or file is not")
	}
	want(s, 1, `SELECT count(*) FROM open_runs WHERE publish_error IS NOT NULL AND type = 'file'`)
	want(s, 0, `SELECT count(*) FROM open_runs WHERE publish_error IS NOT NULL AND type <> 'file'`)
}

func TestARescueOfATypeThatGetsNoAnswerLeavesNoOtherUnsent(t *testing.T) {
	const large = 12 // more than may be in flight at once
	s := setStage(t)
	s.lostOf(large, numbers)
	scheduler := s.scheduler(impatient)
	s.do(scheduler.Rescue(t.Context()))
	rescued := one[int](s, `SELECT count(*) FROM open_runs WHERE trigger = 'rescue' AND type = 'web'`)
	if n := len(s.messages("web")); n != large || rescued != large {
		t.Errorf("%d are rescued and %d messages sent, want %d", rescued, n, large)
	}
}

// unanswered brings each message, and never says so.
type unanswered struct{ jetstream.JetStream }

func (s unanswered) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if err := s.Conn().PublishMsg(msg); err != nil {
		return nil, err
	}
	elsewhere := *msg
	elsewhere.Subject = "nobody.answers"
	return s.JetStream.PublishMsgAsync(&elsewhere, opts...)
}

// firstUnanswered says of each message but the first that it has come.
type firstUnanswered struct {
	jetstream.JetStream
	sent *int
}

func (s firstUnanswered) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if *s.sent++; *s.sent == 1 {
		return unanswered{s.JetStream}.PublishMsgAsync(msg, opts...)
	}
	return s.JetStream.PublishMsgAsync(msg, opts...)
}

func TestWhatIsAcknowledgedBehindAMessageThatIsNotIsDispatched(t *testing.T) {
	s := setStage(t)
	_, err := s.servers.NATS.Subscribe("nobody.answers", func(*nats.Msg) {})
	s.do(err)
	s.servers.Stream = firstUnanswered{s.servers.Stream, new(int)}
	s.connectors(3)
	scheduler := s.scheduler()
	scheduler.dispatcher.within = publishTimeout
	scheduler.dispatcher.publish(t.Context(), s.claim(scheduler))
	want(s, 1, `SELECT count(*) FROM open_runs WHERE publish_error = 'scheduler.publish: no answer within 5s'`)
	want(s, 2, `SELECT count(*) FROM open_runs WHERE publish_error IS NULL`)
}

// A claim that waits for somebody holds the room that it may bring messages into.
func TestOfAStreamWithLittleRoomAClaimThatWaitsLeavesSomeToOthers(t *testing.T) {
	s := setStage(t)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 40 })
	scheduler := s.scheduler()
	held, _, done := scheduler.lanes.take(t.Context(), "file")
	if held != 20 {
		t.Errorf("a batch may bring %d messages, want half of 40", held)
	}
	s.connectors(30)
	s.do(scheduler.lanes.look(t.Context(), nil))
	s.eventually(20*time.Second, s.countIs(20, allPending))
	done()
	s.eventually(20*time.Second, s.countIs(30, allPending))
	scheduler.lanes.wait()
	if scheduler.lanes.promised != 0 {
		t.Errorf("%d messages are still promised", scheduler.lanes.promised)
	}
}
