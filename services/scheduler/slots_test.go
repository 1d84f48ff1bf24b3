//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"testing"
	"time"
)

func TestANewCronConnectorWaitsForItsFirstSlot(t *testing.T) {
	s := setStage(t)
	const waits = `SELECT status = 'ACTIVE' AND due_reason = 'schedule' AND slot_at = next_sync_at AND next_sync_at > clock_timestamp()
		AND NOT needs_plan FROM connectors WHERE id = $1`
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly})
	s.plan()
	want(s, true, waits, id)
	s.exec(`UPDATE connectors SET config = '{"url":"https://b"}' WHERE id = $1`, id)
	want(s, true, waits, id)
	s.exec(`UPDATE connectors SET time_zone = 'Asia/Tokyo' WHERE id = $1`, id)
	s.plan()
	want(s, true, waits, id)
	want(s, true, `SELECT moves.disable($1) AND moves.enable($1)`, id)
	s.plan()
	want(s, true, waits, id)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 0, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1`, id)
}

func TestANewCronConnectorThatWaitsRunsAtOnceWhenItsUserSaysSo(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly})
	s.plan()
	s.exec(`UPDATE connectors SET run_at_once = true WHERE id = $1`, id)
	s.plan()
	s.do(s.scheduler().Tick(t.Context()))
	want(s, "new", `SELECT trigger FROM scheduler_runs WHERE connector_id = $1 AND slot IS NULL`, id)
	s.exec(`UPDATE connectors SET run_at_once = false WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET run_at_once = true WHERE id = $1`, id)
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, id)
}

func TestTheFirstSlotOfANewCronConnectorRuns(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": "* * * * *"})
	s.force(`UPDATE connectors SET planned_through = clock_timestamp() - interval '1 minute' WHERE id = $1`, id)
	s.plan()
	s.do(s.scheduler().Tick(t.Context()))
	want(s, true, `SELECT trigger = 'schedule' AND slot IS NOT NULL FROM open_runs WHERE connector_id = $1`, id)
}

func TestRunAtOnceSaysNothingOnceASyncHasBegun(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "run_at_once": true})
	s.plan()
	s.do(s.scheduler().Tick(t.Context()))
	s.exec(`SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, id)
	for _, change := range []string{
		`UPDATE connectors SET time_zone = 'Asia/Tokyo' WHERE id = $1`, `UPDATE connectors SET schedule_cron = '1 3 * * *' WHERE id = $1`,
		`SELECT moves.enable(id) FROM connectors WHERE id = $1 AND moves.disable(id)`,
	} {
		s.exec(change, id)
		s.plan()
		want(s, "schedule", `SELECT due_reason FROM connectors WHERE id = $1`, id)
	}
}

func TestANewCronConnectorThatIsToRunAtOnceIsDueNow(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "run_at_once": true})
	want(s, true, `SELECT needs_plan FROM connectors WHERE id = $1`, id)
	s.plan()
	s.do(s.scheduler().Tick(t.Context()))
	want(s, "new", `SELECT trigger FROM scheduler_runs WHERE connector_id = $1 AND slot IS NULL`, id)
}

func TestANewCronConnectorThatIsToWaitIsPlannedOnItsNextSlot(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "run_at_once": true})
	want(s, true, `SELECT moves.wait_for_slot($1)`, id)
	s.plan()
	want(s, true, `SELECT due_reason = 'schedule' AND slot_at = next_sync_at AND next_sync_at > clock_timestamp() AND NOT needs_plan
		FROM connectors WHERE id = $1`, id)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 0, `SELECT count(*)::integer FROM scheduler_runs WHERE connector_id = $1`, id)
}

func TestACronConnectorIsPlannedOnItsNextSlot(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "time_zone": "Europe/Berlin",
		"last_sync_at": time.Now()})
	s.plan()
	want(s, true, `SELECT due_reason = 'schedule' AND slot_at = next_sync_at AND NOT needs_plan
		AND next_sync_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 day 1 hour'
		AND (next_sync_at AT TIME ZONE 'Europe/Berlin')::time = '03:00' FROM connectors WHERE id = $1`, id)
}

func TestHIsSpreadByTheConnectorAndPoliciesReachThePlan(t *testing.T) {
	s := setStage(t)
	for id, minute := range map[int32]int{100001: 54, 100002: 19, 2147483647: 48} { // SHA-256("<id> minute"), see docs/conformance
		s.connector(row{"id": id, "refresh_freq_minutes": nil, "schedule_cron": "H 3 * * *", "last_sync_at": time.Now()})
		s.plan()
		want(s, minute, `SELECT extract(minute FROM next_sync_at)::integer FROM connectors WHERE id = $1`, id)
	}
	for gap, slot := range map[string]string{"after": "2026-03-29 01:00Z", "skip": "2026-03-30 00:30Z", "before": "2026-03-29 00:59Z"} {
		id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": "30 2 * * *", "time_zone": "Europe/Berlin", "dst_gap": gap,
			"last_sync_at": time.Now()})
		s.force(`UPDATE connectors SET planned_through = '2026-03-28 12:00Z' WHERE id = $1`, id)
		s.plan()
		want(s, true, `SELECT slot_at = $2::timestamptz FROM connectors WHERE id = $1`, id, slot)
	}
}

func TestSlotsOfAPolicyThatWasChangedAreCountedByIt(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": "30 2 * * *", "time_zone": "Europe/Berlin", "dst_overlap": "both",
		"last_sync_at": time.Now()})
	s.force(`UPDATE connectors SET planned_through = '2025-10-25 12:00Z' WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET dst_overlap = NULL WHERE id = $1`, id)
	want(s, true, `SELECT needs_plan AND planned_through > now() - interval '1 minute' FROM connectors WHERE id = $1`, id)
	want(s, true, `SELECT dst_overlap = 'both' AND dst_gap IS NULL FROM passed_slots WHERE connector_id = $1`, id)
	s.exec(`UPDATE passed_slots SET through = '2025-10-28 12:00Z'`)
	s.do(s.scheduler().MissPassed(s.Context()))
	want(s, true, `SELECT missed_count = 4 AND slot = '2025-10-26 00:30Z' AND slot_last = '2025-10-28 01:30Z'
		FROM scheduler_runs WHERE connector_id = $1 AND status = 'missed'`, id)
}

func TestAClaimTakesTheLatestPassedSlotAndCountsTheMissedOnes(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", 5*time.Minute+30*time.Second)
	s.plan()
	s.claim(s.scheduler())
	want(s, true, `SELECT slot = date_trunc('minute', started_at) AND trigger = 'schedule' AND due_at < slot
		FROM scheduler_runs WHERE connector_id = $1 AND status = 'running'`, id)
	want(s, true, `SELECT count(*) = 1 AND bool_and(slot_last = slot + make_interval(mins => missed_count - 1)
			AND missed_count BETWEEN 4 AND 5 AND slot_last + interval '1 minute' = (SELECT slot FROM scheduler_runs
				WHERE connector_id = $1 AND status = 'running') AND completed_at IS NOT NULL AND trigger = 'schedule')
		FROM scheduler_runs WHERE connector_id = $1 AND status = 'missed'`, id)
	want(s, true, `SELECT planned_through = (SELECT slot FROM scheduler_runs WHERE connector_id = $1
		AND status = 'running') FROM connectors WHERE id = $1`, id)
}

func TestOneMissedSlotIsFirstAndLast(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("0 * * * *", time.Hour)
	s.force(`UPDATE connectors SET planned_through = date_trunc('hour', clock_timestamp()) - interval '90 minutes'`)
	s.plan()
	s.claim(s.scheduler())
	want(s, true, `SELECT missed_count = 1 AND slot = slot_last FROM scheduler_runs
		WHERE connector_id = $1 AND status = 'missed'`, id)
}

func TestMonthsOfMissedSlotsDoNotStopABatch(t *testing.T) {
	s := setStage(t)
	for range 50 {
		s.cronConnector("* * * * *", 200*24*time.Hour)
	}
	s.plan()
	if claimed := s.claim(s.scheduler()); len(claimed) != 50 {
		t.Fatalf("%d connectors were claimed, want 50", len(claimed))
	}
	want(s, true, `SELECT count(*) = 50 AND bool_and(missed_count BETWEEN 200*1440 - 2 AND 200*1440) FROM scheduler_runs
		WHERE status = 'missed'`)
}

func TestAClaimInTimeMissesNothing(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", time.Minute)
	s.plan()
	s.force(`UPDATE connectors SET next_sync_at = date_trunc('minute', clock_timestamp()),
		slot_at = date_trunc('minute', clock_timestamp()) WHERE id = $1`, id)
	s.claim(s.scheduler())
	want(s, 0, `SELECT count(*) FROM scheduler_runs WHERE status = 'missed'`)
}

func TestAfterARunTheScheduleGoesOnWhereItWasPlanned(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", 90*time.Second)
	s.exec(`UPDATE connectors SET overlap = 'queue'`)
	s.plan()
	s.claim(s.scheduler())
	s.complete(id)
	// While it ran two slots passed.
	s.force(`UPDATE connectors SET planned_through = planned_through - interval '2 minutes'`)
	s.plan()
	want(s, true, `SELECT next_sync_at = planned_through + interval '1 minute' AND next_sync_at < clock_timestamp()
		AND due_reason = 'schedule' FROM connectors WHERE id = $1`, id)
}

func TestAnIntervalCountsFromTheVerdict(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"refresh_freq_minutes": 30, "spread_percent": 0})
	s.claim(s.scheduler())
	s.complete(id)
	want(s, true, `SELECT next_sync_at = last_sync_at + interval '30 minutes' AND slot_at = next_sync_at
		AND spread_percent = 0 AND due_reason = 'schedule' AND last_sync_at > clock_timestamp() - interval '1 minute' FROM connectors WHERE id = $1`, id)
	s.force(`UPDATE connectors SET next_sync_at = next_sync_at - interval '5 hours', slot_at = slot_at - interval '5 hours'`)
	s.claim(s.scheduler())
	want(s, 0, `SELECT count(*) FROM scheduler_runs WHERE status = 'missed'`)
	want(s, 1, `SELECT count(*) FROM scheduler_runs WHERE slot IS NOT NULL AND status = 'running'`)
}

func TestABadScheduleDisablesItsConnectorAndDoesNotBlockOthers(t *testing.T) {
	s := setStage(t)
	bad := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": "61 * * * *"})
	zone := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "time_zone": "Mars/Olympus"})
	never := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": "0 0 31 2 *", "last_sync_at": time.Now()})
	fine := s.connector(nil)
	scheduler := s.metered()
	s.do(scheduler.Plan(t.Context()))
	scheduler.values(map[string]float64{"scheduler_bad_schedules_total": 3})
	s.do(scheduler.Tick(t.Context()))
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, fine)
	for id, like := range map[int32]string{
		bad: `bad schedule: schedule\_cron "61 * * * *"%`, zone: `bad schedule: time\_zone "Mars/Olympus"%`,
		never: `schedule\_cron "0 0 31 2 *" never comes due`,
	} {
		like = "disabled, because of its schedule: " + like + "; correct it, then enable the connector"
		want(s, true, `SELECT status = 'DISABLED' AND NOT needs_plan AND next_sync_at IS NULL AND status_message LIKE $2
			FROM connectors WHERE id = $1`, id, like)
	}
	s.exec(`UPDATE connectors SET schedule_cron = $2, run_at_once = true WHERE id = $1`, bad, nightly)
	s.do(s.moves.Enable(t.Context(), bad))
	s.plan()
	s.do(s.scheduler().Tick(t.Context()))
	want(s, true, `SELECT status = 'PENDING' AND status_message IS NULL FROM connectors WHERE id = $1`, bad)
}

func TestABadScheduleOfALaterTimeIsClaimedAsPlanned(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", 90*time.Second)
	s.plan()
	s.exec(`ALTER TABLE connectors DISABLE TRIGGER USER`)
	s.exec(`UPDATE connectors SET schedule_cron = 'nonsense'`)
	s.exec(`ALTER TABLE connectors ENABLE TRIGGER USER`)
	s.claim(s.scheduler())
	want(s, 1, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND slot IS NOT NULL AND status = 'running'`, id)
}

func TestSlotsWhileDisabledAreNotDue(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", time.Hour)
	s.plan()
	s.claim(s.scheduler())
	s.complete(id)
	s.force(`UPDATE connectors SET planned_through = planned_through - interval '1 hour'`)
	s.plan()
	s.do(s.moves.Disable(t.Context(), id))
	s.plan()
	want(s, true, `SELECT next_sync_at IS NULL FROM connectors WHERE id = $1`, id)
	s.do(s.moves.Enable(t.Context(), id))
	s.plan()
	want(s, true, `SELECT next_sync_at > clock_timestamp() AND due_reason = 'schedule' FROM connectors WHERE id = $1`, id)
}

func TestATriggerDoesNotTakeTheScheduleItsSlot(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", 90*time.Second)
	s.force(`UPDATE connectors SET needs_plan = false WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	s.claim(s.scheduler())
	want(s, "manual", `SELECT trigger FROM scheduler_runs WHERE connector_id = $1`, id)
	s.complete(id)
	s.plan()
	want(s, true, `SELECT next_sync_at < clock_timestamp() AND due_reason = 'schedule' FROM connectors WHERE id = $1`, id)
}
