//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// stored completes a run that is picked up.
func (s simulated) stored(id int32) {
	s.Helper()
	run := one[uuid.UUID](s.stage, `UPDATE open_runs SET total = 1, stored = 1, whole = true WHERE connector_id = $1 RETURNING id`, id)
	_, err := s.moves.Complete(s.Context(), run)
	s.do(err)
	s.plan()
}

func TestTheFirstSyncOfAPeriodThatFailsIsTriedAgainAtItsNextSlot(t *testing.T) {
	s := setClock(t, utc("2026-02-05 09:10"))
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": "0 6 * * *", "run_at_once": true, "once_per": "day"})
	s.plan()
	s.look()
	s.fail(id)
	s.isNext(id, "2026-02-06 06:00")
	if n := s.look(); n != 0 {
		t.Errorf("%d were claimed at once", n)
	}
	s.at(utc("2026-02-06 06:00"))
	s.look()
	s.fail(id)
	s.isNext(id, "2026-02-07 06:00")
	s.isLedger(id, "failed: transient failure 06 06:00")
}

func TestAScheduleThatChangesAfterAFailureIsPlannedAnew(t *testing.T) {
	s := setClock(t, utc("2026-02-05 00:30"))
	changed := s.synced(row{"schedule_cron": "0 1 5 * *", "once_per": "day"})
	taken := s.synced(row{"schedule_cron": "0 1 * * *", "once_per": "day"})
	broken := s.synced(row{"schedule_cron": "0 1 * * *", "once_per": "day"})
	s.at(utc("2026-02-05 01:00"))
	s.look()
	s.at(utc("2026-02-05 01:05"))
	s.fail(changed)
	s.fail(taken)
	try := s.pickUp(broken, time.Minute)
	want(s.stage, true, `SELECT moves.fail($1, $2, 'permanent', 'no')`, try.Run, try.ID)
	s.exec(`UPDATE connectors SET schedule_cron = '0 * * * *' WHERE id = ANY($1)`, []int32{changed, broken})
	s.exec(`UPDATE connectors SET schedule_cron = NULL WHERE id = $1`, taken)
	s.plan()
	s.isNext(changed, "2026-02-05 02:00")
	s.isNext(taken, "-")
	s.isNext(broken, "-")
}

func TestASyncThatSomebodyAsksForDoesNotWaitForTheSlotBehindOneThatIsPassedOver(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	cron := s.synced(row{"schedule_cron": "0 3 * * *", "deadline_minutes": 60})
	interval := s.synced(row{"refresh_freq_minutes": 1440, "catch_up": "none", "spread_percent": 0})
	changed := s.synced(row{"schedule_cron": "0 3 3 * *", "deadline_minutes": 60})
	s.at(utc("2026-02-03 13:05"))
	s.exec(`SELECT moves.trigger_sync(unnest($1::integer[]))`, []int32{cron, interval})
	s.exec(`UPDATE connectors SET config = '{"url": "https://new.example"}' WHERE id = $1`, changed)
	if n := s.look(); n != 3 {
		t.Errorf("%d were claimed, want what was asked for and what has changed", n)
	}
	want(s.stage, "manual manual changed", `SELECT string_agg(trigger, ' ' ORDER BY connector_id) FROM open_runs WHERE slot IS NULL`)
	s.completes(cron)
	s.isLedger(cron, "missed: too late 03 03:00-03 03:00 x1")
	s.isNext(cron, "2026-02-04 03:00")
	s.isLedger(interval, "missed: not caught up 03 12:00-03 12:00 x1")
	s.isLedger(changed, "missed: too late 03 03:00-03 03:00 x1")
}

func TestASyncThatSomebodyAsksForIsNotPutOffAndAnswersTheSlotThatWas(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	var ids []int32
	for range 20 {
		ids = append(ids, s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0}))
	}
	s.at(utc("2026-02-02 18:00"))
	s.exec(`SELECT moves.trigger_sync(unnest($1::integer[]))`, ids[:10])
	scheduler := s.scheduler(func(cfg *Config) { cfg.CatchUpWindow = 100 * time.Minute })
	s.claim(scheduler)
	want(s.stage, 10, `SELECT count(*) FROM open_runs WHERE connector_id = ANY($1)`, ids[:10])
	s.exec(`SELECT moves.trigger_sync(unnest($1::integer[]))`, ids[10:])
	s.claim(scheduler)
	want(s.stage, 20, `SELECT count(*) FROM open_runs WHERE slot = '2026-02-02 13:00Z'`)
}

func TestTheCatchUpWindowPutsNothingOffUntilItIsTooOld(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	for range 20 {
		s.synced(row{"schedule_cron": "0 3 * * *", "catch_up_minutes": 720})
	}
	hourly := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "none"})
	scheduler := s.scheduler(func(cfg *Config) { cfg.CatchUpWindow = 100 * time.Minute })
	back := utc("2026-02-03 14:00")
	for minute := 0; minute <= 100; minute += 5 {
		s.at(back.Add(time.Duration(minute) * time.Minute))
		s.claim(scheduler)
	}
	want(s.stage, 20, `SELECT count(*) FROM open_runs WHERE slot = '2026-02-03 03:00Z'`)
	want(s.stage, 0, `SELECT count(*) FROM runs WHERE connector_id <> $1`, hourly)
	s.isLedger(hourly, "missed: not caught up 02 13:00-03 13:00 x25", "running 03 14:00")
}

func TestAFailureAnswersTheSlotsSinceItsClaimAlone(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:30"))
	id := s.synced(row{"schedule_cron": "0 3 * * *", "once_per": "day", "catch_up": "all"})
	often := s.synced(row{"schedule_cron": "0 * * * *", "once_per": "week"})
	s.at(utc("2026-02-06 12:30"))
	s.look()
	s.at(utc("2026-02-06 14:30"))
	s.fail(id)
	s.fail(often)
	s.isNext(id, "2026-02-04 03:00")
	s.isLedger(id, "failed: transient failure 03 03:00")
	s.isNext(often, "2026-02-06 15:00")
	s.isLedger(often, "missed: passed before it could be claimed 02 13:00-06 11:00 x95", "failed: transient failure 06 12:00",
		"skipped: its last run was not over 06 13:00-06 14:00 x2")
	for range 3 {
		s.look()
		s.completes(id)
	}
	s.isLedger(id, "failed: transient failure 03 03:00", "completed 04 03:00", "completed 05 03:00", "completed 06 03:00")
}

func TestASyncThatIsAskedForWhileOneRunsLeavesTheOthersSlotsTheirVerdicts(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	skip := s.synced(row{"schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-02 13:00"))
	s.look()
	s.pickUp(skip, time.Minute)
	s.at(utc("2026-02-02 13:30"))
	s.exec(`SELECT moves.trigger_sync($1)`, skip)
	s.at(utc("2026-02-02 15:30"))
	s.stored(skip)
	s.at(utc("2026-02-02 15:31"))
	s.look()
	s.at(utc("2026-02-02 15:40"))
	s.completes(skip)
	s.isLedger(skip, "completed 02 13:00", "skipped: its last run was not over 02 14:00-02 15:00 x2")
	s.isNext(skip, "2026-02-02 16:00")
}

func TestASyncThatIsClaimedInTheNextPeriodLeavesThePeriodBeforeAnswered(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "*/30 20-23 * * *", "once_per": "day"})
	s.at(utc("2026-02-02 20:00"))
	s.look()
	s.pickUp(id, time.Minute)
	s.at(utc("2026-02-02 22:10"))
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.at(utc("2026-02-02 23:55"))
	s.stored(id)
	s.at(utc("2026-02-03 00:05"))
	s.look()
	s.at(utc("2026-02-03 00:10"))
	s.completes(id)
	s.isNext(id, "2026-02-04 20:00")
	s.at(utc("2026-02-04 20:00"))
	s.look()
	s.isLedger(id, "completed 02 20:00", "skipped: already completed for 2026-02-02 02 20:30-02 23:30 x7",
		"skipped: already completed for 2026-02-03 03 20:00-03 23:30 x8", "running 04 20:00")
}

func TestAPeriodThatHasCompletedStaysSoWhateverIsCaughtUp(t *testing.T) {
	s := setClock(t, utc("2026-02-02 05:00"))
	id := s.synced(row{"schedule_cron": "*/30 6-22 * * *", "once_per": "day"})
	s.at(utc("2026-02-02 06:00"))
	s.look()
	s.completes(id)
	s.at(utc("2026-02-03 05:59"))
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.at(utc("2026-02-04 10:05")) // the scheduler was away
	s.look()
	s.at(utc("2026-02-04 10:10"))
	s.completes(id) // counts for the fourth
	for range 3 {
		if s.look() > 0 {
			s.completes(id)
		}
	}
	want(s.stage, 0, `SELECT count(*) FROM runs WHERE slot >= '2026-02-04' AND missed_count IS NULL`)
	s.isNext(id, "2026-02-05 06:00")
}

func TestAClockThatStepsBackIsNoOutage(t *testing.T) {
	s := setClock(t, utc("2026-02-03 12:00"))
	scheduler := s.scheduler(func(cfg *Config) { cfg.CatchUpWindow = 10 * time.Minute })
	s.synced(row{"refresh_freq_minutes": 60, "last_sync_at": utc("2026-02-03 11:00"), "spread_percent": 0})
	s.claim(scheduler)
	s.at(utc("2026-02-02 12:00"))
	s.synced(row{"schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-02 13:00"))
	if n := len(s.claim(scheduler)); n != 1 {
		t.Errorf("%d were claimed, want the one that is due in time", n)
	}
}

func TestManyThatAreTooLateDoNotKeepACappedTypeFromItsPlace(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at, deadline_minutes)
		SELECT 'c' || i, 'web', 1, 60, clock_timestamp(), 30 FROM generate_series(1, 1000) i`)
	var waiting []int32
	for range 3 {
		waiting = append(waiting, s.synced(row{"refresh_freq_minutes": 60, "last_sync_at": utc("2026-02-03 10:00"), "spread_percent": 0}))
	}
	s.at(utc("2026-02-03 12:00"))
	claimed, err := s.scheduler().Claim(t.Context(), "web", 1, 500)
	s.do(err)
	if len(claimed) != 1 {
		t.Errorf("%d were claimed, want one for the place that is free", len(claimed))
	}
	want(s.stage, 1000, `SELECT count(*) FROM runs WHERE reason = 'too late'`)
	want(s.stage, 2, `SELECT count(*) FROM connectors WHERE id = ANY($1) AND status = 'ACTIVE' AND next_sync_at = slot_at AND slot_at <= clock_timestamp()`, waiting)
}
