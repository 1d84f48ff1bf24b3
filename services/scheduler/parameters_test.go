//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"testing"
	"time"
)

// dryRun asks for a run with parameters.
const dryRun = `SELECT moves.trigger_sync($1, parameters => '{"dry_run": true}')`

// ofJobs makes what is of the type web a job.
func (s *stage) ofJobs() {
	s.Helper()
	s.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'web'`)
}

// isIn fails the test unless a connector is in a run with parameters, or in one without.
func (s simulated) isIn(id int32, parameters bool) {
	s.Helper()
	want(s.stage, parameters, `SELECT parameters IS NOT NULL FROM open_runs WHERE connector_id = $1`, id)
}

// dryRuns are the verdicts of a connector's runs with parameters.
func (s simulated) dryRuns(id int32, verdicts string) {
	s.Helper()
	want(s.stage, verdicts, `SELECT coalesce(string_agg(concat_ws(': ', status, reason), ', ' ORDER BY started_at, completed_at), '')
		FROM scheduler_runs WHERE connector_id = $1 AND parameters IS NOT NULL`, id)
	want(s.stage, 0, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND parameters IS NOT NULL AND slot IS NOT NULL`, id)
}

func (s simulated) failsForGood(id int32) {
	s.Helper()
	try := s.pickUp(id, time.Minute)
	want(s.stage, true, `SELECT moves.fail($1, $2, 'permanent', 'no such provider')`, try.Run, try.ID)
	s.plan()
}

func TestTheMessageOfARunWithParametersHasTheMergedConfig(t *testing.T) {
	s := setStage(t)
	s.ofJobs()
	id := s.connector(row{"config": `{"url": "https://a", "deep": {"b": 1, "c": 2}}`, "last_sync_at": time.Now()})
	const with = `SELECT moves.trigger_sync($1, parameters => '{"url": "https://b", "deep": {"b": null}}')`
	s.exec(with, id)
	says := func(what string, sent Trigger) {
		t.Helper()
		if got := string(sent.Config); got != `{"url": "https://b", "deep": {"c": 2}}` {
			t.Errorf("%s: %s", what, got)
		}
	}
	again := func(what string) {
		t.Helper()
		s.age(pastTheGrace)
		s.republish()
		sent := s.messages("web")
		if len(sent) == 0 {
			t.Errorf("%s: nothing", what)
		}
		for _, m := range sent {
			if got := fmt.Sprint(m.Config.AsMap()); got != "map[deep:map[c:2] url:https://b]" {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
	all := s.claim(s.scheduler())
	says("claimed", all[0])
	again("published again")
	s.pickUp(id, gone)
	s.rescue()
	want(s, true, `SELECT trigger = 'rescue' AND parameters IS NOT NULL FROM open_runs WHERE connector_id = $1`, id)
	again("published after a rescue")
	try := s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.release($1, $2)`, try.Run, try.ID)
	all = s.claim(s.scheduler())
	says("released", all[0])
	try = s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.skip($1, $2, '{}', NULL, 0)`, try.Run, try.ID)
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.exec(with, id)
	all = s.claim(s.scheduler())
	if got := string(all[0].Config); got != `{"url": "https://a", "deep": {"b": 1, "c": 2}}` {
		t.Errorf("the connector's own run has %s", got)
	}
}

func TestWhatIsDueByItselfIsNotAnsweredByARunWithParameters(t *testing.T) {
	for what, due := range map[string]func(s simulated, id int32){
		"a slot": func(s simulated, id int32) { s.exec(dryRun, id) },
		"a slot, and the request before it": func(s simulated, id int32) {
			s.at(utc("2026-02-03 02:59"))
			s.exec(dryRun, id)
			s.at(utc("2026-02-03 03:00"))
		},
		"a released run": func(s simulated, id int32) {
			s.look()
			try := s.pickUp(id, time.Minute)
			s.exec(dryRun, id)
			want(s.stage, true, `SELECT moves.release($1, $2)`, try.Run, try.ID)
		},
		"what somebody has asked for": func(s simulated, id int32) {
			s.exec(dryRun, id)
			s.exec(`SELECT moves.trigger_sync($1)`, id)
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := setClock(t, utc("2026-02-02 12:00"))
			s.ofJobs()
			id := s.synced(row{"schedule_cron": "0 3 * * *"})
			s.at(utc("2026-02-03 03:00"))
			due(s, id)
			s.look()
			s.isIn(id, false)
			s.at(utc("2026-02-03 03:10"))
			s.completes(id)
			s.isNext(id, "2026-02-04 03:00")
			s.look()
			s.isIn(id, true)
			s.failsForGood(id)
			s.isNext(id, "2026-02-04 03:00")
			want(s.stage, "completed", `SELECT string_agg(status, ' ') FROM runs WHERE connector_id = $1 AND parameters IS NULL AND status <> 'superseded'`, id)
			want(s.stage, 1, `SELECT count(*) FROM runs WHERE connector_id = $1 AND slot = '2026-02-03 03:00Z'`, id)
			s.dryRuns(id, "failed: permanent failure")
			if n := s.look(); n != 0 {
				t.Errorf("%d were claimed once more", n)
			}
		})
	}
}

func TestARetryComesAfterARunWithParametersThatIsMadeDuringItsBackoff(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	id := s.synced(row{"schedule_cron": "0 3 * * *"})
	s.at(utc("2026-02-03 03:00"))
	s.look()
	s.fail(id)
	const stands = `SELECT status || failure_count || due_reason || next_sync_at || status_message FROM connectors WHERE id = $1`
	retry := one[string](s.stage, stands, id)
	s.exec(dryRun, id)
	s.at(utc("2026-02-03 03:01"))
	s.look()
	s.isIn(id, true)
	s.completes(id)
	want(s.stage, retry, stands, id)
	s.at(utc("2026-02-03 03:05"))
	s.look()
	want(s.stage, "retry", `SELECT trigger FROM open_runs WHERE connector_id = $1`, id)
	s.completes(id)
	s.isNext(id, "2026-02-04 03:00")
	s.dryRuns(id, "completed")
}

func TestARunWithParametersThatFailsStopsNoSchedule(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	typo, unknown := s.synced(row{"schedule_cron": "0 3 * * *", "max_retries": 1}), s.synced(row{"schedule_cron": "0 3 * * *", "max_retries": 1})
	s.exec(dryRun, typo)
	s.exec(dryRun, unknown)
	s.look()
	s.failsForGood(typo)
	s.fail(unknown)
	for _, id := range []int32{typo, unknown} {
		want(s.stage, "ACTIVE 0", `SELECT concat_ws(' ', status, failure_count, status_message) FROM connectors WHERE id = $1`, id)
		s.isNext(id, "2026-02-03 03:00")
	}
	s.at(utc("2026-02-02 20:00"))
	if n := s.look(); n != 0 {
		t.Errorf("%d were tried again", n)
	}
	s.at(utc("2026-02-03 03:00"))
	if n := s.look(); n != 2 {
		t.Errorf("%d slots run, want 2", n)
	}
	s.dryRuns(typo, "failed: permanent failure")
	s.dryRuns(unknown, "failed: transient failure")
}

func TestSlotsThatComeDuringARunWithParametersWaitForItsEnd(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	night := s.synced(row{"schedule_cron": "0 3 * * *"})
	often := s.synced(row{"schedule_cron": "0 * * * *", "overlap": "skip"})
	late := s.synced(row{"schedule_cron": "0 3 * * *", "deadline_minutes": 5})
	hourly := s.synced(row{"refresh_freq_minutes": 900, "spread_percent": 0})
	all := []int32{night, often, late, hourly}
	s.at(utc("2026-02-02 12:59"))
	for _, id := range all {
		s.exec(dryRun, id)
	}
	s.look()
	s.at(utc("2026-02-03 03:10"))
	for _, id := range all {
		s.isIn(id, true)
		s.completes(id)
	}
	s.look()
	s.isLedger(night, "running 03 03:00")
	s.isLedger(often, "missed: passed before it could be claimed 02 13:00-03 02:00 x14", "running 03 03:00")
	s.isLedger(late, "missed: too late 03 03:00-03 03:00 x1")
	s.isLedger(hourly, "running 03 03:00")
}

func TestAUsersChangeDuringARunWithParametersCounts(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	moved := s.synced(row{"schedule_cron": "0 3 * * *"})
	to := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	off := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	gone := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	changed := s.synced(row{"schedule_cron": "0 3 * * *"})
	named := s.synced(row{"schedule_cron": "0 3 * * *"})
	plain := s.synced(row{"schedule_cron": "0 3 * * *"})
	all := []int32{moved, to, off, gone, changed, named, plain}
	for _, id := range all {
		s.exec(dryRun, id)
	}
	if n := s.look(); n != len(all) {
		t.Fatalf("%d were claimed", n)
	}
	s.at(utc("2026-02-02 13:30"))
	s.exec(`UPDATE connectors SET schedule_cron = '0 5 * * *' WHERE id = $1`, moved)
	s.exec(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = '0 5 * * *' WHERE id = $1`, to)
	want(s.stage, true, `SELECT moves.disable($1)`, off)
	s.exec(`DELETE FROM connectors WHERE id = $1`, gone)
	s.exec(`UPDATE connectors SET config = '{"url": "https://new.example"}' WHERE id = $1`, changed)
	s.exec(`UPDATE connectors SET name = 'another' WHERE id = $1`, named)
	s.exec(`SELECT moves.trigger_sync($1)`, plain)
	s.dryRuns(changed, "superseded: configuration changed")
	s.dryRuns(off, "superseded: disabled")
	s.dryRuns(gone, "superseded: connector deleted")
	want(s.stage, "changed ACTIVE", `SELECT concat_ws(' ', due_reason, status, run_id) FROM connectors WHERE id = $1`, changed)
	want(s.stage, "DISABLED", `SELECT concat_ws(' ', status, due_reason, kept_plan, run_id) FROM connectors WHERE id = $1`, off)
	for _, id := range []int32{moved, to, named, plain} {
		s.isIn(id, true)
		s.failsForGood(id)
	}
	s.isNext(moved, "2026-02-03 05:00")
	s.isNext(to, "2026-02-03 05:00")
	s.isNext(named, "2026-02-03 03:00")
	s.isNext(plain, "2026-02-02 13:30")
	s.isLedger(to, "missed: schedule changed before it could be claimed 02 13:00-02 13:00 x1")
	s.isLedger(off, "missed: disabled before it could be claimed 02 13:00-02 13:00 x1")
	s.isLedger(gone, "missed: connector deleted before it could be claimed 02 13:00-02 13:00 x1")
	s.look()
	s.isIn(plain, false)
	s.isIn(changed, false)
}

func TestARunWithParametersIsNotThePeriods(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	id := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "day"})
	s.at(utc("2026-02-03 05:00"))
	s.exec(dryRun, id)
	s.look()
	s.completes(id)
	s.isNext(id, "2026-02-03 06:00")
	s.at(utc("2026-02-03 06:00"))
	s.look()
	s.isLedger(id, "running 03 06:00")
	s.isIn(id, false)
}

func TestARunWithParametersAsksNoConditionAndAnswersNone(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(100)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *"})
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:00"))
	s.exec(dryRun, id)
	if n := len(s.claimJobs(scheduler)); n != 1 {
		t.Fatalf("%d were claimed, want the run with parameters", n)
	}
	s.isIn(id, true)
	s.completes(id)
	want(s.stage, true, `SELECT asks_condition AND due_at IS NULL AND slot_at = '2026-02-02 13:00Z' FROM connectors WHERE id = $1`, id)
	s.ask(scheduler)
	s.exec(dryRun, id)
	if n := len(s.claimJobs(scheduler)); n != 1 {
		t.Fatalf("%d were claimed, want the slot whose condition is met", n)
	}
	s.isIn(id, false)
	s.isLedger(id, "running 02 13:00")
	want(s.stage, true, `SELECT due_at IS NULL AND next_parameters IS NOT NULL FROM connectors WHERE id = $1`, id)
}

// Of one that always has a slot that is due each request has its turn all the same.
func TestARequestWithParametersWaitsForOneSyncOfItsConnectorsOwn(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	id := s.synced(row{"schedule_cron": "* * * * *", "overlap": "queue"})
	s.at(utc("2026-02-02 12:01"))
	s.exec(dryRun, id)
	s.look()
	s.isIn(id, false)
	s.at(utc("2026-02-02 12:11"))
	s.completes(id)
	s.look()
	s.isIn(id, true)
	s.completes(id)
	s.look()
	s.isLedger(id, "completed 02 12:01", "missed: passed before it could be claimed 02 12:02-02 12:10 x9", "running 02 12:11")
}

func TestARunWithParametersTakesAPlaceUnderTheCap(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	for range 3 {
		s.exec(dryRun, s.synced(row{"schedule_cron": "0 3 * * *"}))
	}
	for _, n := range []int{1, 0} {
		claimed, err := s.scheduler().Claim(t.Context(), "web", 1, 10)
		s.do(err)
		if len(claimed) != n {
			t.Errorf("%d were claimed under a cap of 1, want %d", len(claimed), n)
		}
	}
	want(s.stage, 2, `SELECT count(*) FROM connectors WHERE due_at IS NOT NULL AND next_parameters IS NOT NULL`)
	want(s.stage, 1, `SELECT count(*) FROM open_runs WHERE parameters IS NOT NULL`)
}

func TestARunWithParametersThatIsPutOffHoldsUpNoSlot(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.ofJobs()
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	s.exec(dryRun, id)
	s.look()
	try := s.pickUp(id, time.Minute)
	want(s.stage, true, `SELECT moves.postpone($1, $2, '5 hours', 'the source asked us to wait')`, try.Run, try.ID)
	for _, hour := range []string{"13", "14", "15", "16"} {
		s.at(utc("2026-02-02 " + hour + ":00"))
		s.look()
		s.isIn(id, false)
		s.completes(id)
	}
	s.at(utc("2026-02-02 17:00"))
	s.look() // both are due, and the request for longer than the last sync is over
	s.completes(id)
	s.look()
	s.completes(id)
	s.dryRuns(id, "superseded: postponed, completed")
	want(s.stage, 5, `SELECT count(*) FROM runs WHERE connector_id = $1 AND slot IS NOT NULL AND status = 'completed'`, id)
}
