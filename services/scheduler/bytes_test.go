//go:build !race

package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// Configurations that are as large as they may be; the second is several times as large on the wire.
	words = `jsonb_build_object('words', repeat('x', 65400))`
)

// until looks, as often as a look has time for part of it only, until so many are found.
func (s *stage) until(want int, look func(), sql string) {
	s.Helper()
	s.eventually(time.Minute, func() error {
		look()
		return s.countIs(want, sql)()
	})
}

// claimAll claims until nothing is due, and says how many each claim took.
func (s *stage) claimAll() (triggers []Trigger, counts []int) {
	s.Helper()
	scheduler := s.scheduler()
	for batch := s.claim(scheduler); len(batch) > 0; batch = s.claim(scheduler) {
		triggers, counts = append(triggers, batch...), append(counts, len(batch))
	}
	return triggers, counts
}

func TestABatchIsBoundedInBytesHoweverManyAreDue(t *testing.T) {
	const many, most = 70, 32 // 2 MiB of 64 KiB less a little
	s := setStage(t)
	s.large(many, words)
	triggers, counts := s.claimAll()
	for _, n := range counts {
		if n > most {
			t.Errorf("a claim took %d, want at most %d", n, most)
		}
	}
	if len(triggers) != many || len(counts) > many/most+1 {
		t.Errorf("%d claimed in batches of %v, want %d", len(triggers), counts, many)
	}

	s.age(pastTheGrace)
	want(s, most, `SELECT count(*) FROM moves.redispatch('web', NULL, '15 s', '1 min', 1000)`)
	s.until(many, s.republish, `SELECT count(*) FROM open_runs WHERE dispatches = 2`)
	if n := len(s.messages("web")); n != many-most {
		t.Errorf("%d messages, want those of the %d that the first statement left", n, many-most)
	}

	for i := range triggers {
		s.pickUp(triggers[i].ID, gone)
	}
	s.purge()
	silent := one[string](s, `SELECT jsonb_agg(jsonb_build_object('id', id, 'beats', beats))::text FROM workers`)
	want(s, most+1, `SELECT count(*) FROM moves.rescue($1::jsonb, '6 hours', 1000)`, silent)
	s.until(many, s.rescue, `SELECT count(*) FROM open_runs WHERE trigger = 'rescue'`)
	if n := len(s.messages("web")); n != many-most-1 {
		t.Errorf("%d messages of connectors that were rescued, want %d", n, many-most-1)
	}
}

func TestAStreamThatAnswersNothingHoldsABatchForItsDeadlineAndFewBytesOfIt(t *testing.T) {
	s := setStage(t)
	s.large(20, numbers)
	scheduler := s.scheduler()
	scheduler.dispatcher.within = publishTimeout
	batch := s.claim(scheduler)
	s.limit(func(cfg *jetstream.StreamConfig) { cfg.NoAck = true })
	scheduler.dispatcher.publish(t.Context(), batch)
	if !scheduler.dispatcher.waiting() {
		t.Error("a batch without an acknowledgement counts as published")
	}
	sent, size := s.messages("web"), scheduler.dispatcher.refusedOf("web")
	if n := int64(len(sent)); n == 0 || n*size > mostUnacknowledged+size {
		t.Errorf("%d messages of %d bytes were in flight, more than %d bytes", n, size, mostUnacknowledged)
	}
}

func TestWhatIsClaimedIsSentAlsoWhenTheSchedulerIsToldToStop(t *testing.T) {
	s := setStage(t)
	s.large(6, numbers)
	s.force(`UPDATE connectors SET state = config, listing = config`)
	scheduler := s.scheduler()
	batch := s.claim(scheduler)
	bytes := 0
	for _, trigger := range batch {
		bytes += trigger.size()
	}
	if bytes < mostUnacknowledged/2 { // twice and more of it on the wire
		t.Fatalf("the configurations of %d connectors have %d bytes: all of them are in flight at once", len(batch), bytes)
	}
	scheduler.dispatcher.within = time.Hour
	stopped, stop := context.WithCancel(t.Context())
	stop()
	scheduler.dispatcher.publish(stopped, batch)
	s.eventually(20*time.Second, func() error {
		return s.countIs(len(batch), `SELECT $1::int`, len(s.messages("web")))()
	})
}

func TestAnOwnerWithOneConnectorIsNotLeftBehindOneWhoseConnectorsFillEachBatch(t *testing.T) {
	s := setStage(t)
	s.large(100, words)
	s.connector(row{"user_id": 7})
	scheduler := s.scheduler()
	claims := 0
	for mine := 0; mine == 0; claims++ {
		batch, err := scheduler.Claim(t.Context(), "web", 1000, 500)
		s.do(err)
		for _, trigger := range batch {
			if trigger.UserID == 7 {
				mine++
			}
		}
		if len(batch) == 0 {
			t.Fatal("the owner of one connector was never served")
		}
	}
	if claims > 2 {
		t.Errorf("the owner of one connector was served by claim %d, want the second at the latest", claims)
	}
}

// A look passes over 500 owners. What is claimed is synced and due again at once.
func TestAnOwnerBehindHundredsWhoHaveNothingDueIsNotLeftBehindOwnersWhoseConnectorsFillEachBatch(t *testing.T) {
	const full, most = 3, 5
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, config)
		SELECT 'c' || i, 'web', 1 + i % $1, 60, `+words+` FROM generate_series(1, 600) i`, full)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'idle' || i, 'web', 100 + i, 60, clock_timestamp() FROM generate_series(1, 700) i`)
	s.connector(row{"user_id": 900})
	s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() - interval '50.5 min' WHERE user_id = 900`) // neither first nor last
	due := func() {
		s.force(`DELETE FROM open_runs`)
		s.force(`UPDATE connectors SET status = 'ACTIVE', run_id = NULL, due_reason = 'schedule', slot_at = clock_timestamp(),
			next_sync_at = clock_timestamp() - id * interval '1 min' WHERE user_id <= $1`, full)
	}
	due()
	scheduler := s.scheduler()
	var turns []int32
	for claims := 1; claims <= most; claims++ {
		for _, owner := range owners(s.claims(scheduler, 1000, 500)) {
			if owner == 900 {
				return
			}
		}
		turns = append(turns, one[int32](s, `SELECT served FROM owner_turns WHERE type = 'web'`))
		due()
	}
	t.Errorf("the owner of one connector was not served by %d claims, one for each owner who fills a batch and two more; turns %v", most, turns)
}
