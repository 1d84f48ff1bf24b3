//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// after writes that one runs after another.
func (s *stage) after(id, upstream int32) {
	s.Helper()
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, id, upstream)
}

// byHand is a connector that runs when it is triggered.
func (s *stage) byHand() int32 {
	s.Helper()
	return s.connector(row{"refresh_freq_minutes": nil})
}

// link is a connector without a schedule that runs after others.
func (s *stage) link(upstreams ...int32) int32 {
	s.Helper()
	id := s.byHand()
	for _, upstream := range upstreams {
		s.after(id, upstream)
	}
	return id
}

// runs has one run by hand, to its end.
func (s *stage) runs(ids ...int32) {
	s.Helper()
	for _, id := range ids {
		s.exec(`SELECT moves.trigger_sync($1)`, id)
		claimed, err := s.scheduler().Claim(s.Context(), "web", 0, 1000)
		s.do(err)
		if !slices.ContainsFunc(claimed, func(t Trigger) bool { return t.ID == id }) || len(claimed) != 1 {
			s.Fatalf("claimed %v, want %d", claimed, id)
		}
		s.complete(id)
	}
}

// followed looks at chains, and fails the test unless a claim then takes these.
func (s *stage) followed(scheduler *Scheduler, ids ...int32) {
	s.Helper()
	s.follow(scheduler)
	got := []int32{}
	for _, t := range s.claim(scheduler) {
		got = append(got, t.ID)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		s.Errorf("claimed %v, want %v", got, ids)
	}
}

func TestAConnectorWithoutAScheduleRunsOnceForEachCompletionOfAllItsUpstreams(t *testing.T) {
	s := setStage(t)
	a, b := s.byHand(), s.byHand()
	id := s.link(a, b)
	scheduler := s.scheduler()
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler)
	s.runs(b)
	s.followed(scheduler, id)
	s.runs(b) // in flight, so that it is for the next
	s.complete(id)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
	want(s, 2, `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND trigger = 'upstream' AND status = 'completed'`, id)
}

func TestAnEndWaitsForWhoIsSwitchedOff(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.exec(`SELECT moves.disable($1)`, id)
	s.runs(a)
	s.followed(scheduler)
	s.exec(`SELECT moves.enable($1)`, id)
	s.follow(scheduler) // it is let go, and whoever did it dies; it is switched off and on again before the claim
	want(s, "upstream", `SELECT due_reason FROM connectors WHERE id = $1 AND due_at IS NOT NULL`, id)
	s.exec(`SELECT moves.disable($1)`, id)
	s.exec(`SELECT moves.enable($1)`, id)
	want(s, true, `SELECT upstreams_met_at IS NULL AND due_at IS NULL FROM connectors WHERE id = $1`, id)
	s.followed(s.scheduler(), id)
	s.exec(`SELECT moves.disable($1)`, id) // and once more while its message waits
	s.exec(`SELECT moves.enable($1)`, id)
	s.followed(s.scheduler(), id)
	s.complete(id)
	s.followed(scheduler)
}

func TestARunThatIsHandedBackKeepsTheEndsThatItWasLetGoFor(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	s.exec(`UPDATE connectors SET config = '{"url": "https://b"}' WHERE id = $1`, id) // PENDING
	want(s, "changed false", `SELECT due_reason || ' ' || asks_upstreams FROM connectors WHERE id = $1`, id)
	s.followed(scheduler, id)
	try := s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.release($1, $2)`, try.Run, try.ID)
	s.followed(scheduler, id)
	try = s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.fail($1, $2, 'transient', 'away')`, try.Run, try.ID)
	s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() WHERE id = $1`, id)
	s.followed(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
}

func TestACancelledRunIsOverAndTheNextEndRunsAgain(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	cron := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "last_sync_at": time.Now()})
	s.after(cron, a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	want(s, true, `SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, id)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
	// What has a cron schedule moves as others do.
	s.exec(`SELECT moves.trigger_sync($1)`, cron)
	s.followed(scheduler, cron)
	want(s, true, `SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, cron)
	s.plan()
	s.exec(`SELECT moves.trigger_sync($1)`, cron)
	s.followed(scheduler, cron)
	try := s.pickUp(cron, time.Minute)
	want(s, true, `SELECT moves.fail($1, $2, 'permanent', 'gone')`, try.Run, try.ID)
	s.exec(`UPDATE connectors SET schedule_cron = '0 1 * * *' WHERE id = $1`, cron)
	s.plan()
	s.followed(scheduler)
}

func TestATriggerWaitsForNobodyAndUsesEndsOnlyWhereAllAreThere(t *testing.T) {
	s := setStage(t)
	a, b := s.byHand(), s.byHand()
	id := s.link(a, b)
	scheduler := s.scheduler()
	s.runs(a, id) // b is missing: its run is none of the chain's
	s.runs(b)
	s.follow(scheduler)
	s.exec(`SELECT moves.trigger_sync($1)`, id) // after it was let go: one run is both
	s.followed(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
	s.runs(a, b)
	s.exec(`SELECT moves.trigger_sync($1)`, id) // before anybody has looked
	if got := s.claim(scheduler); len(got) != 1 {
		t.Fatalf("claimed %v", got)
	}
	s.complete(id)
	s.followed(scheduler)
}

func TestASkippedRunCountsWhereItIsAccepted(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	strict, lenient := s.link(a), s.link(a)
	s.exec(`UPDATE run_after SET accepts = 'skipped' WHERE connector_id = $1`, lenient)
	scheduler := s.scheduler()
	s.exec(`SELECT moves.trigger_sync($1)`, a)
	try := s.syncing(a, time.Minute)
	want(s, 1, `SELECT count(*)::int FROM moves.skip_all(jsonb_build_array(jsonb_build_object('run', $1::text, 'try', $2::text))) k WHERE k.skipped`, try.Run.String(), try.ID.String())
	s.followed(scheduler, lenient)
	s.complete(lenient)
	s.runs(a)
	s.followed(scheduler, strict, lenient)
	s.complete(strict)
	s.complete(lenient)
	s.exec(`SELECT moves.trigger_sync($1)`, a)
	try = s.syncing(a, time.Minute)
	want(s, true, `SELECT moves.skip($1, $2, NULL, 'same', 0)`, try.Run, try.ID)
	s.followed(scheduler, lenient)
	s.complete(lenient)
	s.exec(`UPDATE run_after SET accepts = 'completed'`)
	s.exec(`UPDATE run_after SET accepts = 'skipped'`)
	s.followed(scheduler, strict) // the skipped end is new to it
	s.complete(strict)
	s.followed(scheduler)
}

func TestARunWithParametersIsNoEnd(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connector_types (name, kind) VALUES ('refresh', 'job')`)
	a := s.connector(row{"type": "refresh", "refresh_freq_minutes": nil})
	id := s.link(a)
	s.exec(`UPDATE run_after SET accepts = 'skipped' WHERE connector_id = $1`, id)
	scheduler := s.scheduler()
	for _, end := range []string{`moves.end_job($1, $2, '{}')`, `moves.end_job($1, $2, NULL, 'nothing')`, `moves.skip($1, $2, NULL, 'nothing', 0)`} {
		s.exec(`SELECT moves.trigger_sync($1, parameters => '{"dry": true}')`, a)
		if got := s.claimJobs(scheduler); len(got) != 1 {
			t.Fatalf("claimed %v", got)
		}
		try := s.pickUp(a, time.Minute)
		want(s, true, `SELECT `+end, try.Run, try.ID)
		s.followed(scheduler)
	}
	want(s, int64(0), `SELECT no FROM upstream_ends WHERE connector_id = $1`, a)
}

func TestAScheduleWaitsForAFreshUpstreamAndGivesUp(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, max_age_minutes, timeout_minutes) VALUES ($1, $2, 30, 20)`, id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 12:20"))
	s.runs(a)
	s.at(utc("2026-02-02 13:00")) // 40 minutes old
	s.followed(scheduler)
	s.at(utc("2026-02-02 13:10"))
	s.runs(a)
	s.followed(scheduler, id)
	s.complete(id)
	s.plan()
	s.at(utc("2026-02-02 14:00"))
	s.followed(scheduler)
	s.at(utc("2026-02-02 14:20"))
	s.followed(scheduler)
	s.isLedger(id, "completed 02 13:00")
	s.at(utc("2026-02-02 14:21"))
	s.followed(scheduler)
	s.isNext(id, "2026-02-02 15:00")
	s.isLedger(id, "completed 02 13:00", fmt.Sprintf("missed: upstream %d did not complete 02 14:00-02 14:00 x1", a))
	s.at(utc("2026-02-02 15:00"))
	s.followed(scheduler)
	s.at(utc("2026-02-02 15:01"))
	s.runs(a)
	s.followed(scheduler, id)
	s.isLedger(id, "completed 02 13:00", fmt.Sprintf("missed: upstream %d did not complete 02 14:00-02 14:00 x1", a), "running 02 15:00")
}

func TestASlotThatHasWaitedLessIsNotGivenUpWithAnEarlierOne(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	interval := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	for _, id := range []int32{id, interval} {
		s.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes) VALUES ($1, $2, 90)`, id, a)
	}
	scheduler := s.scheduler()
	for _, now := range []string{"13:00", "14:00", "14:29", "14:31"} {
		s.at(utc("2026-02-02 " + now))
		s.followed(scheduler)
	}
	vain := fmt.Sprintf("missed: upstream %d did not complete 02 13:00-02 13:00 x1", a)
	s.isLedger(id, vain)
	s.isLedger(interval, vain)
	s.isNext(id, "2026-02-02 14:00")
	s.isNext(interval, "2026-02-02 15:31")
	s.at(utc("2026-02-02 15:10"))
	s.runs(a)
	s.followed(scheduler, id)
	s.isLedger(id, vain, "missed: passed before it could be claimed 02 14:00-02 14:00 x1", "running 02 15:00")
}

func TestWhatIsLetGoIsNotMissedAtACapNorTooOldThere(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 13 * * *", "catch_up": "none"})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, max_age_minutes, timeout_minutes) VALUES ($1, $2, 30, 20)`, id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:15"))
	s.runs(a)
	s.follow(scheduler)
	s.at(utc("2026-02-02 17:00")) // it has waited for a place
	s.followed(s.scheduler(), id)
	s.isLedger(id, "running 02 13:00")
	s.complete(id)
	s.plan()
	s.at(utc("2026-02-03 13:01"))
	s.followed(scheduler) // it has used that end
}

func TestAConnectorWithoutAScheduleGivesUpAndUsesWhatHasComeByThen(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a, b := s.byHand(), s.byHand()
	id := s.link(a, b)
	s.exec(`UPDATE run_after SET timeout_minutes = 30 WHERE connector_id = $1`, id)
	scheduler := s.scheduler()
	s.followed(scheduler)
	s.at(utc("2026-02-02 20:00")) // nobody waits while nobody has ended
	s.runs(a)
	s.followed(scheduler)
	s.at(utc("2026-02-02 20:29"))
	s.followed(scheduler)
	want(s.stage, 0, `SELECT count(*)::int FROM runs WHERE connector_id = $1`, id)
	s.at(utc("2026-02-02 20:30"))
	s.followed(scheduler)
	s.followed(scheduler)
	want(s.stage, fmt.Sprintf("missed: upstream %d did not complete 1", b), `SELECT string_agg(status || ': ' || reason || ' ' || missed_count, ', ') FROM runs WHERE connector_id = $1`, id)
	s.runs(b)
	s.followed(scheduler)
	s.at(utc("2026-02-02 20:59"))
	s.runs(a)
	s.followed(scheduler, id)
}

func TestAnIntervalOrNewScheduleWaitsForItsUpstream(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.connector(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes) VALUES ($1, $2, 30)`, id, a)
	scheduler := s.scheduler()
	s.followed(scheduler)
	s.at(utc("2026-02-02 12:31"))
	s.followed(scheduler)
	want(s.stage, fmt.Sprintf("missed upstream %d did not complete new", a), `SELECT status || ' ' || reason || ' ' || trigger FROM runs WHERE connector_id = $1`, id)
	s.isNext(id, "2026-02-02 13:31")
	s.runs(a)
	s.followed(scheduler)
	s.at(utc("2026-02-02 13:31"))
	s.followed(scheduler, id)
	s.complete(id)
	s.at(utc("2026-02-02 14:31"))
	s.followed(scheduler)
	s.exec(`DELETE FROM run_after WHERE connector_id = $1`, id)
	s.followed(scheduler, id)
	want(s.stage, false, `SELECT follows FROM connectors WHERE id = $1`, id)
}

func TestAChainOfTenEndsInTwoSeconds(t *testing.T) {
	s := setStage(t)
	chain := []int32{s.byHand()}
	for len(chain) < 10 {
		chain = append(chain, s.link(chain[len(chain)-1]))
	}
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	s.listening(scheduler)
	s.exec(`SELECT moves.trigger_sync($1)`, chain[0])
	for _, id := range chain {
		s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE id = $1 AND status = 'PENDING'`, id))
		s.exec(`SELECT moves.pick_up($1, run_id, $2, NULL, NULL) FROM connectors WHERE id = $1`, id, uuid.New())
		s.finish(id)
	}
	t.Log("it took", one[time.Duration](s, `SELECT max(completed_at) - min(started_at) FROM runs`))
}
