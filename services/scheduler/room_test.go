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
	slow := stuck{s.servers.Stream, make(chan struct{}), make(chan struct{})}
	s.servers.Stream = slow
	s.connectors(1)
	scheduler := s.scheduler()
	scheduler.dispatcher.judge(map[string]int64{"web": 100}, map[string]bool{"web": true})
	s.do(scheduler.lanes.look(t.Context(), nil))
	<-slow.begun
	if !scheduler.lanes.places.TryAcquire(mostBatches) {
		t.Error("its place is taken")
	}
	close(slow.goesOn)
	scheduler.lanes.wait()
}

// A claim that waits for somebody holds the room that it may bring messages into.
func TestOfAStreamWithLittleRoomAClaimThatWaitsLeavesSomeToOthers(t *testing.T) {
	s := setStage(t)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 40 })
	scheduler := s.scheduler()
	held, done := scheduler.lanes.take(t.Context(), "file")
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
