package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// held is a publish that says which batch has come to it, and ends when it is let go.
func held(t *testing.T) (p *pipeline, came chan int32, letGo chan struct{}) {
	came, letGo = make(chan int32, 3), make(chan struct{})
	return &pipeline{publish: func(ctx context.Context, batch []Trigger) {
		came <- batch[0].ID
		select {
		case <-letGo:
		case <-t.Context().Done():
		}
	}}, came, letGo
}

func (s *stage) published(came <-chan int32, want int32) {
	s.Helper()
	select {
	case id := <-came:
		if id != want {
			s.Errorf("batch %d is published, want %d", id, want)
		}
	case <-time.After(10 * time.Second):
		s.Fatalf("batch %d is not published", want)
	}
}

func TestASecondBatchIsClaimedWhileTheFirstIsPublishedOnceTheStreamHasTakenOne(t *testing.T) {
	s := &stage{T: t}
	p, came, letGo := held(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.send(t.Context(), []Trigger{{ID: 1}})
	}()
	s.published(came, 1)
	select {
	case <-ended:
		t.Error("the first batch of a tick is not waited for")
	default:
	}
	letGo <- struct{}{}
	<-ended

	p.send(t.Context(), []Trigger{{ID: 2}, {ID: 3}}) // returns while it is published
	s.published(came, 2)
	if p.size != 2 {
		t.Errorf("%d are on their way, want 2", p.size)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		p.send(t.Context(), []Trigger{{ID: 4}})
	}()
	letGo <- struct{}{} // only then the next one
	s.published(came, 4)
	<-ended
	letGo <- struct{}{}
	p.wait()
	if p.size != 0 {
		t.Errorf("%d are on their way, want none", p.size)
	}
}

func TestATickReturnsWhenItsLastBatchIsInTheStream(t *testing.T) {
	s := setStage(t)
	s.connectors(10)
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 3 }).Tick(t.Context()))
	if n := len(s.messages("web")); n != 10 {
		t.Errorf("%d messages, want 10", n)
	}
}

func TestManyBatchesNeverBringMoreThanTheStreamHasRoomFor(t *testing.T) {
	s := setStage(t)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 7 })
	s.connectors(20)
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 2 }).Tick(t.Context()))
	want(s, 7, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	if n := len(s.messages("web")); n != 7 {
		t.Errorf("%d messages, want 7", n)
	}
}
