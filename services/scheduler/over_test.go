//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"testing"
	"time"
)

func TestASyncThatIsWantedIsTriedAgainThoughItsPeriodHasCompleted(t *testing.T) {
	s := setClock(t, utc("2026-01-31 12:00"))
	changed := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "month"})
	asked := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "month"})
	late := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "month"})
	both := s.synced(row{"schedule_cron": "0 10 3 * *", "once_per": "month"})
	s.at(utc("2026-02-01 06:00"))
	s.look()
	for _, id := range []int32{changed, asked, late} {
		s.completes(id)
	}
	s.at(utc("2026-02-03 10:00"))
	s.exec(`UPDATE connectors SET config = '{"url": "https://new.example"}' WHERE id = $1`, changed)
	s.exec(`SELECT moves.trigger_sync($1)`, asked)
	s.exec(`SELECT moves.trigger_sync($1)`, late)
	s.exec(`SELECT moves.trigger_sync($1)`, both) // its slot is due as well, and is answered by the same run
	if n := s.look(); n != 4 {
		t.Fatalf("%d were claimed, want 4", n)
	}
	s.isLedger(both, "running 03 10:00")
	for _, id := range []int32{changed, asked, both} {
		s.fail(id)
	}
	// One that was handed back is the same sync.
	try := s.pickUp(late, time.Minute)
	want(s.stage, true, `SELECT moves.release($1, $2)`, try.Run, try.ID)
	s.look()
	s.fail(late)
	want(s.stage, 4, `SELECT count(*) FROM connectors WHERE status = 'ERROR' AND due_reason = 'retry' AND next_sync_at < clock_timestamp() + interval '5 minutes'`)
	s.at(utc("2026-02-03 10:10"))
	if n := s.look(); n != 4 {
		t.Errorf("%d were tried again, want 4", n)
	}
	s.completes(asked)
	s.isNext(asked, "2026-03-01 06:00")
}

func TestASyncThatIsAskedForAfterItsClaimIsWantedAsWell(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "day"})
	s.at(utc("2026-02-03 06:00"))
	s.look()
	s.exec(`SELECT moves.trigger_sync($1)`, id) // nobody has picked it up: the run answers it
	s.fail(id)
	want(s.stage, "retry", `SELECT due_reason FROM connectors WHERE id = $1`, id)
	s.at(utc("2026-02-03 06:10"))
	s.look()
	s.completes(id)
	s.at(utc("2026-02-04 06:00"))
	s.look()
	s.fail(id) // nobody has asked for this one
	s.isNext(id, "2026-02-05 06:00")
}

func TestThePermissionToDeleteEndsWithTheTriesOfItsRequest(t *testing.T) {
	s := setClock(t, utc("2026-02-01 06:30"))
	id := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "month"})
	passed := s.synced(row{"schedule_cron": "0 3 1 * *", "deadline_minutes": 60})
	s.exec(`SELECT moves.trigger_sync($1, true)`, id)
	s.look()
	s.fail(id)
	s.at(utc("2026-02-01 06:40"))
	s.look()
	try := s.pickUp(id, time.Minute) // the try of the request has it
	want(s.stage, true, `SELECT moves.deletions_allowed($1, $2)`, try.Run, try.ID)
	want(s.stage, true, `SELECT moves.skip($1, $2, NULL, 'x', 0)`, try.Run, try.ID)
	s.plan()
	s.at(utc("2026-03-01 06:00")) // the slot of the other is too late
	s.exec(`SELECT moves.trigger_sync($1, true)`, passed)
	if n := s.look() + s.look(); n != 2 {
		t.Fatalf("%d were claimed, want 2", n)
	}
	try = s.pickUp(id, time.Minute)
	want(s.stage, false, `SELECT moves.deletions_allowed($1, $2)`, try.Run, try.ID)
	try = s.pickUp(passed, time.Minute)
	want(s.stage, "manual", `SELECT trigger FROM open_runs WHERE id = $1 AND deletions_allowed_at IS NOT NULL`, try.Run)
	want(s.stage, true, `SELECT moves.skip($1, $2, NULL, 'x', 0)`, try.Run, try.ID)
	s.plan()
	s.at(utc("2026-04-01 03:00"))
	s.look()
	try = s.pickUp(passed, time.Minute)
	want(s.stage, false, `SELECT moves.deletions_allowed($1, $2)`, try.Run, try.ID)
}

func TestSlotsBehindACompletedPeriodThatIsNoMoreOneAreAnswered(t *testing.T) {
	s := setClock(t, utc("2026-02-02 05:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "once_per": "day"})
	s.at(utc("2026-02-02 06:00"))
	s.look()
	s.completes(id)
	s.at(utc("2026-02-02 22:30"))
	s.exec(`UPDATE connectors SET once_per = NULL WHERE id = $1`, id)
	s.plan()
	s.at(utc("2026-02-05 12:30")) // the scheduler was away
	s.exec(`UPDATE connectors SET schedule_cron = '30 * * * *' WHERE id = $1`, id)
	s.do(s.scheduler().MissPassed(t.Context()))
	s.isLedger(id, "completed 02 06:00", "skipped: already completed for 2026-02-02 02 07:00-02 22:00 x16",
		"missed: schedule changed before it could be claimed 02 23:00-05 12:00 x62")
}

func TestASyncThatIsAskedForInTheMiddleOfTheTriesIsOneOfThem(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "all", "deadline_minutes": 30})
	s.at(utc("2026-02-02 13:00"))
	s.look()
	s.at(utc("2026-02-02 17:30"))
	s.fail(id)
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.look()
	s.at(utc("2026-02-02 18:10"))
	s.completes(id)
	s.isNext(id, "2026-02-02 19:00")
	s.isLedger(id, "failed: transient failure 02 13:00", "skipped: its last run was not over 02 14:00-02 17:00 x4",
		"skipped: its last run was not over 02 18:00-02 18:00 x1")
}

func TestWhatCameBeforeItsUserMendedAFailureIsCaughtUp(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-02 13:00"))
	s.look()
	s.at(utc("2026-02-02 14:30"))
	try := s.pickUp(id, time.Minute)
	want(s.stage, true, `SELECT moves.fail($1, $2, 'permanent', 'no')`, try.Run, try.ID)
	s.at(utc("2026-02-02 17:30"))
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.look()
	s.completes(id)
	s.look()
	s.isLedger(id, "failed: permanent failure 02 13:00", "skipped: its last run was not over 02 14:00-02 14:00 x1",
		"missed: passed before it could be claimed 02 15:00-02 16:00 x2", "running 02 17:00")
}

func TestASlotThatQueuesBehindASyncThatFailsRunsWhateverIsCaughtUp(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "overlap": "queue", "once_per": "day", "catch_up": "none"})
	s.at(utc("2026-02-02 13:00"))
	s.look()
	s.at(utc("2026-02-02 15:30"))
	s.fail(id)
	s.look()
	s.isLedger(id, "failed: transient failure 02 13:00", "missed: passed before it could be claimed 02 14:00-02 14:00 x1", "running 02 15:00")
}

func TestASyncThatFailedIsOverWhateverLastSyncAtSays(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "once_per": "day", "last_sync_at": utc("2030-01-01 00:00")})
	for _, hour := range []string{"13", "14", "15"} {
		s.at(utc("2026-02-02 " + hour + ":00"))
		if n := s.look(); n != 1 {
			t.Errorf("%d were claimed at %s:00, want 1", n, hour)
		}
		s.fail(id)
	}
}

func TestARunThatIsCancelledLeavesTheSlotsSinceItsClaim(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	id := s.synced(row{"schedule_cron": "0 * * * *", "once_per": "day"})
	s.at(utc("2026-02-02 13:00"))
	s.look()
	s.at(utc("2026-02-02 14:30"))
	s.exec(`SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, id)
	s.plan()
	s.isNext(id, "2026-02-02 14:00") // nothing has completed for this day
	s.look()
	s.at(utc("2026-02-02 15:30"))
	s.completes(id)
	s.isNext(id, "2026-02-03 00:00")
}

func TestAWaitForAPlaceIsNoOutage(t *testing.T) {
	s := setClock(t, utc("2026-02-03 12:00"))
	scheduler := s.scheduler(func(cfg *Config) { cfg.CatchUpWindow, cfg.MaxConcurrentSyncs = 24*time.Hour, 1 })
	first := s.synced(row{"refresh_freq_minutes": 60, "last_sync_at": utc("2026-02-03 11:00"), "spread_percent": 0})
	s.claim(s.scheduler()) // a leader before it
	id := s.synced(row{"refresh_freq_minutes": 1440, "last_sync_at": utc("2026-02-02 13:00"), "spread_percent": 0})
	for minute := 0; minute <= 65; minute += 5 { // it looks, and the place is taken
		s.at(utc("2026-02-03 12:00").Add(time.Duration(minute) * time.Minute))
		s.do(scheduler.Tick(t.Context()))
	}
	s.completes(first)
	s.do(scheduler.Tick(t.Context()))
	want(s.stage, 1, `SELECT count(*) FROM open_runs WHERE connector_id = $1`, id)
}

func TestNothingIsPutOffBehindItsOwnNextSlot(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	for range 20 {
		s.synced(row{"schedule_cron": "*/5 * * * *"})
		s.synced(row{"refresh_freq_minutes": 5, "spread_percent": 0})
	}
	s.at(utc("2026-02-02 12:07")) // two minutes late, as after a deployment
	scheduler := s.scheduler(func(cfg *Config) { cfg.CatchUpWindow = 2 * time.Hour })
	s.claim(scheduler)
	want(s.stage, true, `SELECT max(next_sync_at) FILTER (WHERE schedule_cron IS NOT NULL) < '2026-02-02 12:10Z' AND max(next_sync_at) < '2026-02-02 12:12Z'
		AND min(next_sync_at) > '2026-02-02 12:07Z' AND count(*) > 30 FROM connectors WHERE status = 'ACTIVE'`)
}
