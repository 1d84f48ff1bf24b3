package scheduler

import (
	"context"
	"testing"
	"time"
)

const gone = -time.Second // a lease that has run out

// impatient takes a lease that has run out for evidence enough.
func impatient(cfg *Config) { cfg.LeaseSeconds = 0 }

func (s *stage) rescue() {
	s.Helper()
	s.do(s.scheduler(impatient).Rescue(s.Context()))
}

func TestAWorkerThatIsLostAgainIsLeftToSemantic(t *testing.T) {
	for name, retries := range map[string]int{"of many tries": 5, "of one try": 1} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			id := s.connector(row{"max_retries": retries})
			s.syncing(id, gone)
			if retries > 1 {
				s.rescue()
				s.pickUp(id, gone)
			}
			run := s.session(id)
			s.rescue()
			want(s, run, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, id)
		})
	}
}

func TestOfTwoSchedulersOneRescues(t *testing.T) {
	s := setStage(t)
	s.connectors(30)
	for _, trigger := range s.claim(s.scheduler()) {
		s.pickUp(trigger.ID, gone)
	}
	ended := make(chan error)
	for range 2 {
		scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch, cfg.LeaseSeconds = 4, 0 })
		go func() { ended <- scheduler.Rescue(t.Context()) }()
	}
	for range 2 {
		s.do(<-ended)
	}
	want(s, 30, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND failure_count = 1`)
	if n := len(s.messages("web")); n != 30 {
		t.Errorf("%d messages, want 30", n)
	}
}

// pickUpForeign picks a connector up as a subscriber does that keeps no lease.
func (s *stage) pickUpForeign(id int32) {
	s.Helper()
	want(s, true, `SELECT moves.pick_up($1, $2, gen_random_uuid())`, id, s.session(id))
}

func TestARowThatSomebodyHoldsStopsNoRescueAndNoRepeatOfOthers(t *testing.T) {
	for name, hold := range map[string]string{
		"the connector": `SELECT 1 FROM connectors WHERE id = $1 FOR UPDATE`,
		"the run":       `SELECT 1 FROM open_runs WHERE connector_id = $1 FOR SHARE`,
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.connectors(6)
			all := s.claim(s.scheduler())
			for _, trigger := range all[:3] {
				s.pickUp(trigger.ID, gone)
			}
			s.age(pastTheGrace)
			holder, err := s.servers.Pool.Begin(t.Context())
			s.do(err)
			defer func() { s.do(holder.Rollback(context.WithoutCancel(t.Context()))) }()
			held := []int32{all[0].ID}
			if name == "the connector" { // nobody holds the run of one that waits: pick_up holds its connector first
				held = append(held, all[3].ID)
			}
			for _, id := range held {
				_, err = holder.Exec(t.Context(), hold, id)
				s.do(err)
			}
			scheduler := s.scheduler(func(cfg *Config) { cfg.LeaseSeconds, cfg.ClaimBatch = 0, 2 })
			s.do(scheduler.Rescue(t.Context())) // a wait for the row ends with an error
			s.do(scheduler.Republish(t.Context()))
			want(s, 2, `SELECT count(*) FROM open_runs WHERE trigger = 'rescue'`)
			want(s, 4-len(held), `SELECT count(*) FROM open_runs WHERE dispatches = 2`)
			want(s, "SYNCING", `SELECT status FROM connectors WHERE id = $1`, all[0].ID)
		})
	}
}
