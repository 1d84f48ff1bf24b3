//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func (s simulated) isLedger(id int32, lines ...string) {
	s.Helper()
	if got := s.ledger(id); !slices.Equal(got, lines) {
		s.Errorf("the ledger of connector %d has\n%q, want\n%q", id, got, lines)
	}
}

func (s simulated) isNext(id int32, at string) {
	s.Helper()
	if got := s.next(id); got != at {
		s.Errorf("connector %d is due at %s, want %s", id, got, at)
	}
}

// fail ends a claimed connector's run with an error that passes.
func (s simulated) fail(id int32) {
	s.Helper()
	try := s.pickUp(id, time.Minute)
	want(s.stage, true, `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
	s.plan()
}

func (s simulated) completes(id int32) {
	s.Helper()
	s.complete(id)
	s.plan()
}

// look is a claim of all that is due; it says how many were claimed.
func (s simulated) look() int {
	s.Helper()
	return len(s.claim(s.scheduler()))
}

func TestASlotThatNobodyClaimsWithinItsDeadlineIsMissed(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	cron := s.synced(row{"schedule_cron": "0 3 * * *", "deadline_minutes": 120})
	late := s.synced(row{"schedule_cron": "0 3,15 * * *", "deadline_minutes": 120})
	interval := s.synced(row{"refresh_freq_minutes": 60, "deadline_minutes": 30, "spread_percent": 0})
	in := s.synced(row{"refresh_freq_minutes": 60, "deadline_minutes": 10000, "spread_percent": 0})
	s.at(utc("2026-02-05 16:00")) // the scheduler was away for days
	if n := s.look(); n != 2 {
		t.Errorf("%d were claimed, want the two with a slot in time", n)
	}
	s.isLedger(cron, "missed: too late 03 03:00-05 03:00 x3")
	s.isNext(cron, "2026-02-06 03:00")
	s.isLedger(late, "missed: too late 02 15:00-05 03:00 x6", "running 05 15:00")
	s.isLedger(interval, "missed: too late 02 13:00-02 13:00 x1")
	s.isNext(interval, "2026-02-05 17:00")
	s.isLedger(in, "running 02 13:00")
	want(s.stage, true, `SELECT status = 'ACTIVE' AND due_reason = 'schedule' AND slot_at = next_sync_at AND slots_through = '2026-02-05 03:00Z'
		FROM connectors WHERE id = $1`, cron)
	s.at(utc("2026-02-06 05:00"))
	if n := s.look(); n != 1 { // at the last moment
		t.Errorf("%d were claimed, want 1", n)
	}
	s.isLedger(cron, "missed: too late 03 03:00-05 03:00 x3", "running 06 03:00")
}

func TestADeadlineHoldsUnderACap(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	for range 30 {
		s.synced(row{"schedule_cron": "0 * * * *", "deadline_minutes": 30})
	}
	fresh := s.synced(row{"schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-02 13:45"))
	claimed, err := s.scheduler().Claim(t.Context(), "web", 2, 2)
	s.do(err)
	if len(claimed) != 1 || claimed[0].ID != fresh {
		t.Errorf("claimed %v, want the one that is in time, past those that are not", claimed)
	}
	want(s.stage, true, `SELECT count(*) = 30 AND bool_and(reason = 'too late' AND slot = '2026-02-02 13:00Z') FROM runs`)
	want(s.stage, 30, `SELECT count(*) FROM connectors WHERE next_sync_at = '2026-02-02 14:00Z'`)
}

func TestMoreThanABatchThatIsTooLateStopsNobody(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at, deadline_minutes)
		SELECT 'c' || i, 'web', 1, 60, clock_timestamp(), 30 FROM generate_series(1, 2500) i`)
	fresh := s.synced(row{"refresh_freq_minutes": 60})
	s.at(utc("2026-02-03 12:00"))
	claimed, err := s.scheduler().Claim(t.Context(), "web", 0, 500)
	s.do(err)
	if len(claimed) != 1 || claimed[0].ID != fresh {
		t.Errorf("claimed %d, want the one without a deadline", len(claimed))
	}
	claimed, err = s.scheduler().Claim(t.Context(), "web", 0, 500)
	s.do(err)
	if len(claimed) > 0 {
		t.Errorf("claimed %d more", len(claimed))
	}
	want(s.stage, 2500, `SELECT count(*) FROM runs WHERE status = 'missed' AND reason = 'too late'`)
	want(s.stage, 2500, `SELECT count(*) FROM connectors WHERE next_sync_at > clock_timestamp() AND due_reason = 'schedule'`)
}

func TestSlotsThatComeWhileASyncIsUnderWayAreSkippedOrTheLatestIsQueued(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	skip := s.synced(row{"schedule_cron": "0 * * * *"})
	queue := s.synced(row{"schedule_cron": "0 * * * *", "overlap": "queue"})
	s.at(utc("2026-02-02 13:00"))
	s.look()
	s.at(utc("2026-02-02 16:30"))
	s.completes(skip)
	s.completes(queue)
	s.isLedger(skip, "completed 02 13:00", "skipped: its last run was not over 02 14:00-02 16:00 x3")
	s.isNext(skip, "2026-02-02 17:00")
	if n := s.look(); n != 1 {
		t.Errorf("%d were claimed, want the one that queues", n)
	}
	s.isLedger(queue, "completed 02 13:00", "missed: passed before it could be claimed 02 14:00-02 15:00 x2", "running 02 16:00")
}

func TestTriesThatFollowAFailureAreTheSameSync(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-02 13:00"))
	s.look()
	s.at(utc("2026-02-02 14:30"))
	s.fail(id)
	s.at(utc("2026-02-02 14:40"))
	s.look()
	s.at(utc("2026-02-02 15:20"))
	s.completes(id)
	s.isLedger(id, "failed: transient failure 02 13:00", "skipped: its last run was not over 02 14:00-02 15:00 x2")
	s.isNext(id, "2026-02-02 16:00")
}

func TestOneCompletedSyncInAPeriodIsEnough(t *testing.T) {
	s := setClock(t, utc("2026-02-05 20:00"))
	id := s.synced(row{"schedule_cron": "*/30 6-22 * * *", "time_zone": "Europe/Berlin", "once_per": "day"})
	s.at(utc("2026-02-05 20:30"))
	s.look()
	s.at(utc("2026-02-05 21:05")) // one slot came meanwhile
	s.fail(id)
	s.isNext(id, "2026-02-05 21:30")
	s.at(utc("2026-02-05 21:30"))
	s.look()
	s.at(utc("2026-02-05 23:10")) // it ends on the next day there, and counts for the one before
	s.completes(id)
	s.isNext(id, "2026-02-06 05:00")
	s.at(utc("2026-02-06 05:00"))
	s.look()
	s.at(utc("2026-02-06 05:10"))
	s.completes(id)
	s.isNext(id, "2026-02-07 05:00")
	s.at(utc("2026-02-06 10:00"))
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.look()
	s.completes(id)
	s.isNext(id, "2026-02-07 05:00")
	s.at(utc("2026-02-07 05:00"))
	s.look()
	s.isLedger(id, "failed: transient failure 05 20:30", "skipped: its last run was not over 05 21:00-05 21:00 x1", "completed 05 21:30",
		"completed 06 05:00", "skipped: already completed for 2026-02-06 06 05:30-06 21:30 x33", "running 07 05:00")
}

func TestAWeekAndAMonthEndInTheSchedulesZone(t *testing.T) {
	s := setClock(t, utc("2026-01-31 10:00"))
	week := s.synced(row{"schedule_cron": "0 6 * * *", "time_zone": "Pacific/Auckland", "once_per": "week"})
	month := s.synced(row{"schedule_cron": "0 6 * * *", "time_zone": "Pacific/Auckland", "once_per": "month"})
	s.at(utc("2026-01-31 17:00")) // Sunday, 1 February there
	if n := s.look(); n != 2 {
		t.Fatalf("%d were claimed, want both", n)
	}
	s.completes(week)
	s.completes(month)
	s.isNext(week, "2026-02-01 17:00")
	s.isNext(month, "2026-02-28 17:00")
	s.at(utc("2026-02-28 17:00"))
	s.look()
	s.isLedger(week, "completed 31 17:00", "missed: passed before it could be claimed 01 17:00-27 17:00 x27", "running 28 17:00")
	s.isLedger(month, "completed 31 17:00", "skipped: already completed for 2026-02 01 17:00-27 17:00 x27", "running 28 17:00")
}

func TestWhatPassedWhileNobodyClaimedIsCaughtUpAsTheScheduleSays(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	none := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "none"})
	latest := s.synced(row{"schedule_cron": "0 * * * *"})
	window := s.synced(row{"schedule_cron": "0 * * * *", "catch_up_minutes": 20})
	all := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "all", "catch_up_most": 3, "catch_up_minutes": 1000})
	interval := s.synced(row{"refresh_freq_minutes": 60, "catch_up": "none", "spread_percent": 0})
	s.at(utc("2026-02-02 18:30"))
	if n := s.look(); n != 2 {
		t.Errorf("%d were claimed, want 2", n)
	}
	s.isLedger(none, "missed: not caught up 02 13:00-02 18:00 x6")
	s.isNext(none, "2026-02-02 19:00")
	s.isLedger(window, "missed: not caught up 02 13:00-02 18:00 x6")
	s.isLedger(latest, "missed: passed before it could be claimed 02 13:00-02 17:00 x5", "running 02 18:00")
	s.isLedger(interval, "missed: not caught up 02 13:00-02 13:00 x1")
	s.isNext(interval, "2026-02-02 19:30")
	for range 3 {
		s.completes(all)
		s.look()
	}
	s.isLedger(all, "missed: passed before it could be claimed 02 13:00-02 15:00 x3", "completed 02 16:00", "completed 02 17:00", "completed 02 18:00")
	s.isNext(all, "2026-02-02 19:00")
}

func TestOnTimeIsNoCatchingUp(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "none"})
	s.at(utc("2026-02-02 13:00").Add(59 * time.Second))
	if n := s.look(); n != 1 {
		t.Errorf("%d were claimed a minute late, want 1", n)
	}
	s.isLedger(id, "running 02 13:00")
}

// A tick shortly before the slot is followed by the next one a minute later, which may be late itself.
func TestTheTickBehindASlotIsOnTime(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "none"})
	every := time.Minute // SCHEDULER_CHECK_INTERVAL_SECONDS, where nobody sets it
	s.at(utc("2026-02-02 13:00").Add(-10 * time.Millisecond))
	s.look()
	s.at(utc("2026-02-02 13:00").Add(-10*time.Millisecond + every + 50*time.Millisecond))
	s.look()
	s.isLedger(id, "running 02 13:00")
}

func TestARescueAnswersWhatItsLostRunDid(t *testing.T) {
	s := setClock(t, utc("2026-02-05 20:00"))
	id := s.synced(row{"schedule_cron": "0 23 * * *", "once_per": "day"})
	s.at(utc("2026-02-05 23:00"))
	s.look()
	s.pickUp(id, time.Minute)
	s.at(utc("2026-02-06 00:30"))
	worker := one[uuid.UUID](s.stage, `SELECT worker_id FROM open_runs WHERE connector_id = $1`, id)
	want(s.stage, 1, `SELECT count(*) FROM moves.rescue(jsonb_build_array(jsonb_build_object('id', $1::uuid, 'beats', 1)), '1 hour', 10)`, worker)
	s.completes(id)
	want(s.stage, true, `SELECT synced_for = '2026-02-05 23:00Z' FROM connectors WHERE id = $1`, id)
	s.isNext(id, "2026-02-06 23:00")
}

func TestWhatAnOutageHasLeftIsSpreadOverTheCatchUpWindow(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	for range 100 {
		s.synced(row{"refresh_freq_minutes": 120, "spread_percent": 0})
	}
	cron := s.synced(row{"schedule_cron": "0 */2 * * *"})
	urgent := s.synced(row{"refresh_freq_minutes": 120, "spread_percent": 0, "deadline_minutes": 241})
	scheduler := s.scheduler(func(cfg *Config) { cfg.CatchUpWindow = 100 * time.Minute })
	back := utc("2026-02-02 18:00")
	s.at(back)
	due := s.synced(row{"refresh_freq_minutes": 120, "spread_percent": 0, "last_sync_at": utc("2026-02-02 16:00")}) // due just now
	first := len(s.claim(scheduler))
	want(s.stage, 2, `SELECT count(*) FROM open_runs WHERE connector_id = ANY($1)`, []int32{due, urgent})
	if first > 4 {
		t.Errorf("%d are claimed at once", first)
	}
	for minute, claimed := 10, first; minute <= 100; minute += 10 {
		s.at(back.Add(time.Duration(minute) * time.Minute))
		claimed += len(s.claim(scheduler))
		if claimed < minute-2 || claimed > minute+6 {
			t.Errorf("after %d minutes of 100 %d are claimed", minute, claimed)
		}
	}
	want(s.stage, 103, `SELECT count(*) FROM open_runs WHERE slot IS NOT NULL`)
	if lines := s.ledger(cron); len(lines) != 2 {
		t.Errorf("%q, want its latest slot and one line for those before", lines)
	}
}

func TestWithoutACatchUpWindowAllIsClaimedAtOnce(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	for range 20 {
		s.synced(row{"refresh_freq_minutes": 60})
	}
	s.at(utc("2026-02-02 18:00"))
	if n := s.look(); n != 20 {
		t.Errorf("%d were claimed, want 20", n)
	}
}

func TestAChangedPolicyDecidesFromThenOn(t *testing.T) {
	s := setClock(t, utc("2026-02-06 05:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-06 06:00"))
	s.look()
	s.completes(id)
	s.isNext(id, "2026-02-06 07:00")
	s.exec(`UPDATE connectors SET once_per = 'day' WHERE id = $1`, id)
	s.plan()
	s.isNext(id, "2026-02-07 00:00")
	s.at(utc("2026-02-06 10:30"))
	s.exec(`UPDATE connectors SET once_per = NULL WHERE id = $1`, id)
	s.plan()
	s.isNext(id, "2026-02-06 11:00")
	s.at(utc("2026-02-06 11:00"))
	s.look()
	s.do(s.scheduler().MissPassed(t.Context()))
	s.isLedger(id, "completed 06 06:00", "skipped: already completed for 2026-02-06 06 07:00-06 10:00 x4", "running 06 11:00")
}

func TestWhatIsDisabledInACompletedPeriodHasNoSecondVerdict(t *testing.T) {
	s := setClock(t, utc("2026-02-06 05:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "once_per": "day"})
	s.at(utc("2026-02-06 06:00"))
	s.look()
	s.completes(id)
	s.at(utc("2026-02-06 12:30"))
	s.exec(`SELECT moves.disable($1)`, id)
	s.do(s.scheduler().MissPassed(t.Context()))
	s.isLedger(id, "completed 06 06:00", "skipped: already completed for 2026-02-06 06 07:00-06 12:00 x6")
	s.at(utc("2026-02-07 12:30"))
	s.exec(`SELECT moves.enable($1)`, id)
	s.plan()
	s.isNext(id, "2026-02-07 13:00")
}

func TestSlotsThatASchedulePassesOverAreNoDurationsOfSyncs(t *testing.T) {
	s := setStage(t)
	m := s.metered()
	s.exec(`INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at, status, reason, config_version)
		SELECT gen_random_uuid(), 1, 'web', 'schedule', now() + interval '1 hour', now() + interval '3 hours', 3, now() + interval '1 hour', now(), now() - interval '1 minute',
			'skipped', 'already completed for 2026-02-06', 1`)
	_, err := m.measureLedger(t.Context(), time.Now().Add(-time.Hour))
	s.do(err)
	m.values(map[string]float64{"scheduler_verdicts_total": 1})
	metrics, err := m.gatherer.Gather()
	s.do(err)
	for _, family := range metrics {
		if family.GetName() == "scheduler_sync_duration_seconds" && len(family.GetMetric()) > 0 {
			t.Errorf("it counts as a duration: %v", family)
		}
	}
}
