//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"testing"
)

func TestPoliciesComeBeforeUpstreamsAndTheseBeforeTheCondition(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	a := s.byHand()
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *", "deadline_minutes": 10})
	s.after(id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:00"))
	s.ask(scheduler)
	s.follow(scheduler)
	s.isLedger(id)
	s.at(utc("2026-02-02 13:11"))
	s.follow(scheduler)
	s.isLedger(id, "missed: too late 02 13:00-02 13:00 x1") // whoever ends later
	s.at(utc("2026-02-02 14:00"))
	s.runs(a)
	s.follow(scheduler)
	want(s.stage, true, `SELECT upstreams_met_at IS NOT NULL AND asks_condition AND due_at IS NULL FROM connectors WHERE id = $1`, id)
	s.runs(a) // after it was let go: an unmet condition does not use it
	s.ask(scheduler)
	s.isLedger(id, "missed: too late 02 13:00-02 13:00 x1")
	s.isNext(id, "2026-02-02 15:00")
	want(s.stage, true, `SELECT upstreams_met_at IS NULL FROM connectors WHERE id = $1`, id)
	for _, now := range []string{"15:00", "16:00"} {
		s.at(utc("2026-02-02 " + now))
		s.follow(scheduler)
		want(s.stage, now == "15:00", `SELECT asks_condition FROM connectors WHERE id = $1`, id)
		s.ask(scheduler)
	}
}

func TestAnUnmetConditionUsesTheEndThatItWasAskedFor(t *testing.T) {
	s := setStage(t)
	s.counted(10)
	s.condition("enough", enough)
	a := s.byHand()
	id := s.job(row{"refresh_freq_minutes": nil})
	s.after(id, a)
	scheduler := s.scheduler()
	s.runs(a)
	for range 3 {
		s.follow(scheduler)
		s.ask(scheduler)
	}
	want(s, 1, `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND status = 'skipped'`, id)
	s.exec(`UPDATE changes SET n = 50`)
	s.runs(a)
	s.follow(scheduler)
	s.ask(scheduler)
	if n := len(s.claimJobs(scheduler)); n != 1 {
		t.Errorf("%d are claimed, want 1", n)
	}
}

func TestAConditionThatFailsIsAskedAgainForTheSameEnd(t *testing.T) {
	s := setStage(t)
	s.counted(10)
	s.condition("enough", enough)
	a := s.byHand()
	id := s.job(row{"refresh_freq_minutes": nil, "config": `{"least": "many"}`})
	s.after(id, a)
	scheduler := s.scheduler()
	s.runs(a)
	s.follow(scheduler)
	s.ask(scheduler)
	want(s, "ERROR upstream 1", `SELECT status || ' ' || due_reason || ' ' || failure_count FROM connectors WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET config = '{"least": 1}' WHERE id = $1`, id)
	s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() WHERE id = $1`, id)
	s.ask(scheduler)
	if n := len(s.claimJobs(scheduler)); n != 1 {
		t.Errorf("%d are claimed, want 1", n)
	}
}
