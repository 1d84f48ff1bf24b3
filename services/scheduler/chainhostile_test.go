//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"testing"
	"time"
)

func TestAFollowerWhoseFaultIsMendedRunsAfterTheNextEnd(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	try := s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.fail($1, $2, 'permanent', 'bad credentials')`, try.Run, try.ID)
	s.exec(`UPDATE connectors SET config = '{"url": "https://mended"}' WHERE id = $1`, id)
	s.runs(a)
	s.followed(scheduler, id)
}

func TestAFollowerWhoseConditionFailsRunsWhereAnotherUpstreamIsAdded(t *testing.T) {
	s := setStage(t)
	s.counted(10)
	s.condition("enough", enough)
	a, b := s.byHand(), s.byHand()
	id := s.job(row{"refresh_freq_minutes": nil, "config": `{"least": "many"}`})
	s.after(id, a)
	scheduler := s.scheduler()
	s.runs(a)
	s.follow(scheduler)
	s.ask(scheduler)
	want(s, "ERROR upstream 1", `SELECT status || ' ' || due_reason || ' ' || failure_count FROM connectors WHERE id = $1`, id)
	s.after(id, b)
	s.exec(`UPDATE connectors SET config = '{"least": 1}' WHERE id = $1`, id)
	s.runs(b)
	s.follow(scheduler)
	s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() WHERE id = $1 AND next_sync_at IS NOT NULL`, id)
	s.follow(scheduler)
	s.ask(scheduler)
	if n := len(s.claimJobs(scheduler)); n != 1 {
		t.Errorf("%d are claimed, want 1", n)
	}
}

func TestAFollowerWhoseConditionFailsFollowsNobodyWhereItsUpstreamIsRemoved(t *testing.T) {
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
	s.exec(`DELETE FROM run_after`)
	s.follow(scheduler)
	want(s, false, `SELECT follows FROM connectors WHERE id = $1`, id)
}

func TestWhoFailedForGoodAndFollowsNobodyAnyMoreSaysSo(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	try := s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.fail($1, $2, 'permanent', 'bad credentials')`, try.Run, try.ID)
	s.exec(`DELETE FROM run_after`)
	s.follow(scheduler)
	want(s, false, `SELECT follows FROM connectors WHERE id = $1`, id)
}

func TestAnUpstreamThatIsGivenAwayTwiceIsLookedAtTwice(t *testing.T) {
	s := setStage(t)
	a := s.connector(row{"refresh_freq_minutes": nil, "scope": "org"})
	id := s.link(a)
	s.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, a) // everybody sees it still
	// A scheduler has told all of it, and it is given once more before that is written down.
	told := one[time.Time](s, `SELECT tell_at FROM upstream_ends WHERE connector_id = $1`, a)
	s.exec(`SELECT moves.hand_on($1, 0, 100)`, a)
	s.exec(`UPDATE connectors SET scope = 'user' WHERE id = $1`, a)
	s.exec(`SELECT moves.have_told($1, 0, 'given', $2, '{}')`, a, told)
	s.follow(s.scheduler())
	want(s, 0, `SELECT count(*)::int FROM run_after WHERE connector_id = $1`, id)
}

func TestASlotThatIsTooLateHasItsVerdictAlsoWhereItsUpstreamNeverEnds(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 13 * * *", "deadline_minutes": 10})
	s.after(id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:00"))
	s.followed(scheduler)
	for _, now := range []string{"2026-02-02 13:11", "2026-02-03 13:11", "2026-02-04 13:11"} {
		s.at(utc(now))
		s.followed(scheduler)
		s.plan()
	}
	want(s.stage, 3, `SELECT coalesce(sum(missed_count), 0)::int FROM runs WHERE connector_id = $1`, id)
}

func TestAnEndThatIsTooOldLetsNobodyGoThatWasSwitchedOffByItsCondition(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	a := s.byHand()
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": "many"}`, "refresh_freq_minutes": 60, "spread_percent": 0, "max_retries": 1})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, max_age_minutes) VALUES ($1, $2, 60)`, id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:00"))
	s.runs(a)
	s.follow(scheduler)
	s.ask(scheduler)
	want(s.stage, "DISABLED", `SELECT status FROM connectors WHERE id = $1`, id)
	s.at(utc("2026-02-05 12:00"))
	s.exec(`UPDATE connectors SET config = '{"least": 1}' WHERE id = $1`, id)
	want(s.stage, true, `SELECT moves.enable($1)`, id)
	s.at(utc("2026-02-05 13:00"))
	s.follow(scheduler)
	want(s.stage, true, `SELECT asks_upstreams FROM connectors WHERE id = $1`, id)
}

func TestAnEndThatIsTooOldLetsNobodyGoWhoseSpreadHasChanged(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"refresh_freq_minutes": 1440, "spread_percent": 0})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, max_age_minutes) VALUES ($1, $2, 60)`, id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-03 12:00"))
	s.runs(a)
	s.follow(scheduler)
	want(s.stage, true, `SELECT upstreams_met_at IS NOT NULL FROM connectors WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET spread_percent = 1 WHERE id = $1`, id)
	t.Log(one[string](s.stage, `SELECT next_sync_at || ' ' || due_reason || ' ' || (upstreams_met_at IS NOT NULL) FROM connectors WHERE id = $1`, id))
	s.at(utc("2026-02-05 13:00"))
	s.followed(scheduler)
}

func TestARowOfADeletedUpstreamThatIsWrittenAgainStays(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	s.exec(`DELETE FROM connectors WHERE id = $1`, a)
	s.connector(row{"id": a, "refresh_freq_minutes": nil})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2) ON CONFLICT (connector_id, upstream_id) DO NOTHING`, id, a) // as the command line
	s.followed(s.scheduler())
	s.runs(a)
	s.followed(s.scheduler(), id)
}

func TestAFollowerWithAPeriodAndAnUpstreamAfterAnOutage(t *testing.T) {
	s := setClock(t, utc("2026-02-02 01:00"))
	a := s.synced(row{"schedule_cron": "0 2 * * *"})
	id := s.synced(row{"schedule_cron": "0 3 * * *"})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes) VALUES ($1, $2, 120)`, id, a)
	s.at(utc("2026-02-02 09:00")) // no scheduler was there since
	scheduler := s.scheduler()
	s.followed(scheduler, a)
	t.Log(fmt.Sprint(one[string](s.stage, `SELECT coalesce(string_agg(connector_id || ' ' || status || ' ' || coalesce(reason, '') || ' ' || slot, ', '), 'nothing') FROM runs`)))
	s.complete(a)
	s.followed(scheduler, id)
}

func TestASlotOfNoCatchUpThatHasWaitedWithLaterOnesIsRunOnce(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "none"})
	s.after(id, a)
	scheduler := s.scheduler()
	for _, now := range []string{"13:00", "14:00", "15:00", "15:30"} {
		s.at(utc("2026-02-02 " + now))
		s.followed(scheduler)
	}
	s.runs(a)
	s.followed(scheduler, id)
	t.Log(one[string](s.stage, `SELECT string_agg(status || ' ' || coalesce(reason, '') || ' ' || slot || ' ' || coalesce(missed_count, 1), ', ' ORDER BY slot) FROM scheduler_runs WHERE connector_id = $1`, id))
	s.complete(id)
	s.plan()
	s.at(utc("2026-02-02 16:00"))
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
}

func TestAllSlotsAreCaughtUpEachWithAnEndOfItsOwn(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "all", "catch_up_most": 10})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes) VALUES ($1, $2, 150)`, id, a)
	scheduler := s.scheduler()
	for _, now := range []string{"13:00", "14:00", "15:00", "15:20"} {
		s.at(utc("2026-02-02 " + now))
		s.followed(scheduler)
	}
	for range 3 {
		s.runs(a)
		s.followed(scheduler, id)
		s.complete(id)
		s.plan()
		s.followed(scheduler)
	}
	t.Log(one[string](s.stage, `SELECT string_agg(status || ' ' || coalesce(reason, '') || ' ' || slot || ' ' || coalesce(missed_count, 1), ', ' ORDER BY slot) FROM scheduler_runs WHERE connector_id = $1`, id))
	want(s.stage, 3, `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND status = 'completed'`, id)
}

func TestASlotThatItsConditionPassedOverIsNoEnd(t *testing.T) {
	s := setStage(t)
	s.counted(10)
	s.condition("enough", enough)
	a := s.job(nil)
	id := s.byHand()
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, accepts) VALUES ($1, $2, 'skipped')`, id, a)
	scheduler := s.scheduler()
	s.follow(scheduler)
	s.ask(scheduler)
	want(s, 1, `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND status = 'skipped'`, a)
	s.follow(scheduler)
	s.followed(scheduler)
}

func TestATimeInWhichNoSchedulerLooksIsNoPatience(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	b := s.link(a)
	id := s.link(a, b)
	s.exec(`UPDATE run_after SET timeout_minutes = 30`)
	s.follow(s.scheduler())
	s.runs(a) // and then no scheduler for a day
	s.at(utc("2026-02-03 12:00"))
	scheduler := s.scheduler()
	s.followed(scheduler, b)
	s.complete(b)
	s.followed(scheduler, id)
	s.complete(id)
	s.runs(a)
	s.at(utc("2026-02-03 12:31"))
	s.followed(scheduler, b) // while it is there, time counts
	want(s.stage, 1, `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND status = 'missed'`, id)
}

func TestAnImportedFollowerThatWaitsForItsSlotWaitsForItsUpstreamThere(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.connector(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	s.after(id, a)
	scheduler := s.scheduler()
	s.runs(a)
	s.follow(scheduler) // it is let go, as new
	want(s.stage, true, `SELECT upstreams_met_at IS NOT NULL AND due_reason = 'new' FROM connectors WHERE id = $1`, id)
	want(s.stage, true, `SELECT moves.wait_for_slot($1)`, id)
	t.Log(one[string](s.stage, `SELECT asks_upstreams || ' ' || coalesce(upstreams_met_at::text, '-') || ' ' || coalesce(next_sync_at::text, '-') || (SELECT ' used ' || used || ' seen ' || coalesce(seen::text, '-') FROM upstream_uses WHERE connector_id = id) FROM connectors WHERE id = $1`, id))
	want(s.stage, true, `SELECT asks_upstreams FROM connectors WHERE id = $1`, id)
	s.at(utc("2026-02-02 13:00"))
	s.followed(scheduler, id) // with the end that nobody has used
}
