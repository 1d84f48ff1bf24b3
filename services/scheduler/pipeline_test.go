package scheduler

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// held makes publishes that say which batch has come to them, and end when they are let go.
func held(t *testing.T) (publish func(batch int32) func(), came chan int32, letGo chan struct{}) {
	came, letGo = make(chan int32, 3), make(chan struct{})
	return func(batch int32) func() {
		return func() {
			came <- batch
			select {
			case <-letGo:
			case <-t.Context().Done():
			}
		}
	}, came, letGo
}

func (s *stage) published(came <-chan int32, want int32) {
	s.Helper()
	select {
	case id := <-came:
		if id != want {
			s.Errorf("batch %d is published, want %d", id, want)
		}
	case <-time.After(time.Minute):
		s.Fatalf("batch %d is not published", want)
	}
}

func TestASecondBatchIsClaimedWhileTheFirstIsPublishedOnceTheStreamHasTakenOne(t *testing.T) {
	s := &stage{T: t}
	publish, came, letGo := held(t)
	var p pipeline
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.send(publish(1))
	}()
	s.published(came, 1)
	select {
	case <-ended:
		t.Error("the first batch of a type is not waited for")
	default:
	}
	letGo <- struct{}{}
	<-ended

	p.send(publish(2)) // returns while it is published
	s.published(came, 2)
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		p.send(publish(3))
	}()
	letGo <- struct{}{} // only then the next one
	s.published(came, 3)
	<-ended
	letGo <- struct{}{}
	p.wait()
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

func TestManyTypesNeverBringMoreThanTheStreamHasRoomFor(t *testing.T) {
	s := setStage(t)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 2*mostBatches + 4 })
	s.exec(`INSERT INTO connector_types (name) SELECT 't' || i FROM generate_series(1, 12) i`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'c', 't' || i, 1, 60 FROM generate_series(1, 12) i, generate_series(1, 5)`)
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 2 }).Tick(t.Context()))
	want(s, 2*mostBatches+4, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
}
