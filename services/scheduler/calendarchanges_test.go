//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// replan has everything planned anew whose calendar has changed.
func (s simulated) replan() {
	s.Helper()
	s.do(s.scheduler().Replan(s.Context()))
	s.plan()
	want(s.stage, 0, `SELECT count(*) FROM calendar_changes`)
}

func TestWhatHasFailedAndHasNoSlotIsPlannedAnewWithItsCalendar(t *testing.T) {
	s := setClock(t, utc("2026-12-29 12:00"))
	s.calendar("work", "UTC", `[{"name": "w", "start": "2026-12-01", "end": "2026-12-31"}]`)
	id := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "day", "calendar": "work", "calendar_use": "only"})
	permanent := s.synced(row{"schedule_cron": "0 6 * * *", "once_per": "day", "calendar": "work", "calendar_use": "only"})
	s.at(utc("2026-12-30 06:00"))
	s.look()
	s.at(utc("2026-12-30 06:05"))
	s.fail(id) // for now
	s.failsForGood(permanent)
	s.plan()
	want(s.stage, true, `SELECT next_sync_at IS NULL FROM connectors WHERE id = $1`, id)
	s.at(utc("2026-12-31 09:00"))
	s.calendar("work", "UTC", `[{"name": "w", "start": "2026-12-01", "end": "2026-12-31"}, {"name": "w27", "start": "2027-01-01", "end": "2027-12-31"}]`)
	s.replan()
	s.isNext(id, "2027-01-01 06:00")
	want(s.stage, true, `SELECT next_sync_at IS NULL AND status = 'ERROR' FROM connectors WHERE id = $1`, permanent)
}

func TestACalendarThatChangesDuringARunWithParametersDecidesBehindIt(t *testing.T) {
	s := setClock(t, utc("2026-01-01 12:00"))
	s.ofJobs()
	s.calendar("work", "UTC", `[{"name": "freeze", "start": "2026-01-02", "end": "2026-12-31"}]`)
	s.calendar("open", "UTC", `[{"name": "past", "start": "2025-01-02", "end": "2025-12-31"}]`)
	cron := s.synced(row{"schedule_cron": "0 6 * * *", "calendar": "work"})
	interval := s.synced(row{"refresh_freq_minutes": 1200, "spread_percent": 0, "calendar": "work"})
	never := s.synced(row{"schedule_cron": "0 6 * * *", "calendar": "open", "calendar_use": "only"})
	s.at(utc("2026-01-02 08:00"))
	s.look() // the interval's slot is passed over
	all := []int32{cron, interval, never}
	for _, id := range all {
		s.exec(dryRun, id)
	}
	s.look()
	for _, id := range all {
		s.isIn(id, true)
	}
	s.at(utc("2026-01-03 12:00"))
	s.calendar("work", "UTC", `[]`)
	s.calendar("open", "UTC", `[{"name": "now", "start": "2026-01-01", "end": "2026-12-31"}]`)
	s.replan()
	s.at(utc("2026-01-03 12:10"))
	for _, id := range all {
		s.completes(id)
	}
	s.plan()
	s.isNext(cron, "2026-01-02 06:00")
	s.isNext(interval, "2026-01-03 12:00")
	s.isNext(never, "2026-01-02 06:00")
}

func TestARowThatSomebodyHoldsKeepsNoOtherFromItsCalendar(t *testing.T) {
	s := setClock(t, utc("2026-01-01 12:00"))
	s.calendar("work", "UTC", `[{"name": "freeze", "start": "2026-01-02", "end": "2026-12-31"}]`)
	var ids []int32
	for range 30 {
		ids = append(ids, s.synced(row{"schedule_cron": "0 6 * * *", "calendar": "work"}))
	}
	s.at(utc("2026-01-05 12:00"))
	held, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	_, err = held.Exec(t.Context(), `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, ids[2])
	s.do(err)
	s.calendar("work", "UTC", `[]`)
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 10 })
	s.do(scheduler.Replan(t.Context()))
	want(s.stage, 29, `SELECT count(*) FROM connectors WHERE needs_plan`)
	s.do(scheduler.Plan(t.Context()))
	s.do(scheduler.Replan(t.Context()))
	want(s.stage, 0, `SELECT count(*) FROM connectors WHERE needs_plan`) // nobody is planned twice
	s.do(held.Rollback(context.Background()))
	s.replan()
	want(s.stage, 30, `SELECT count(*) FROM connectors WHERE next_sync_at <= clock_timestamp()`)
}

func TestAClaimThatHasWaitedAsksTheCalendarOfThen(t *testing.T) {
	s := setClock(t, utc("2026-01-01 12:00"))
	s.calendar("work", "UTC", `[{"name": "freeze", "start": "2026-01-01", "end": "2026-12-31"}]`)
	interval := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0, "calendar": "work"})
	s.at(utc("2026-01-01 13:00"))
	turn, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	s.takeTurn(turn)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 })
	ended := make(chan error)
	go func() { _, err := scheduler.Claim(context.Background(), "web", 5, 10); ended <- err }()
	s.eventually(2*time.Second, func() error {
		if n := one[int](s.stage, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`); n == 0 {
			return fmt.Errorf("nobody waits")
		}
		return nil
	})
	s.calendar("work", "UTC", `[]`)
	s.do(s.scheduler().Replan(t.Context()))
	s.do(turn.Rollback(context.Background()))
	s.do(<-ended)
	s.isLedger(interval, "running 01 13:00")
}

func TestAChangeThatConcernsNoSlotOfAnIntervalLeavesItWhereItIs(t *testing.T) {
	s := setClock(t, utc("2026-01-01 02:00"))
	s.calendar("k", "UTC", `[]`)
	late := s.synced(row{"refresh_freq_minutes": 1440, "spread_percent": 0, "deadline_minutes": 30, "calendar": "k"})
	putOff := s.synced(row{"refresh_freq_minutes": 1440, "spread_percent": 0, "calendar": "k"})
	s.at(utc("2026-01-02 02:00"))
	s.force(`UPDATE connectors SET next_sync_at = '2026-01-02 16:30Z' WHERE id = ` + fmt.Sprint(putOff)) // behind an outage; its slot is 02:00
	s.at(utc("2026-01-02 04:00"))
	s.look()
	s.isNext(late, "2026-01-03 04:00")
	s.at(utc("2026-01-02 13:00"))
	s.calendar("k", "UTC", `[{"name": "far", "start": "2027-01-01"}]`)
	s.replan()
	s.isNext(late, "2026-01-03 04:00")
	s.isNext(putOff, "2026-01-02 16:30")
	want(s.stage, "2026-01-02 02:00", `SELECT to_char(slot_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') FROM connectors WHERE id = $1`, putOff)
}

func TestWhatACalendarHasPutOffComesApartWhenItOpens(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('k', 'UTC', '[{"name": "freeze", "start": "2026-01-01", "end": "2026-12-31", "rule": "FREQ=YEARLY"}, {"name": "freeze", "start": "2026-12-31", "rule": "FREQ=YEARLY"}]')`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, spread_percent, calendar, last_sync_at)
		SELECT 'n' || i, 'web', 1, 1440, 100, 'k', clock_timestamp() - interval '3 days' FROM generate_series(1, 200) i`)
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, 0, `SELECT count(*) FROM connectors WHERE due_at < clock_timestamp() + interval '1 day'`)
	s.exec(`UPDATE calendars SET entries = '[]'`)
	s.do(scheduler.Replan(t.Context()))
	want(s, true, `SELECT max(next_sync_at) - min(next_sync_at) > interval '20 hours' AND max(next_sync_at) < clock_timestamp() + interval '1 day' FROM connectors`)
}

func TestAVersionOfACalendarThatWasLostIsNotGivenAgain(t *testing.T) {
	s := setClock(t, utc("2026-01-01 12:00"))
	s.calendar("k", "UTC", `[]`)
	id := s.synced(row{"schedule_cron": "0 * * * *", "calendar": "k"})
	scheduler := s.scheduler()
	s.exec(`CREATE TABLE kept AS SELECT version, entries, (SELECT last_value FROM calendar_versions_made) AS made FROM calendars`)
	s.calendar("k", "UTC", `[{"name": "freeze", "start": "2026-01-01", "end": "2026-12-31"}]`)
	s.do(scheduler.Replan(t.Context()))
	s.do(scheduler.Plan(t.Context()))
	s.isNext(id, "2026-12-31 00:00")
	// The replica that takes over has nothing of that, and its sequence neither.
	s.exec(`ALTER TABLE calendars DISABLE TRIGGER USER`)
	s.exec(`UPDATE calendars SET (version, entries) = (SELECT version, entries FROM kept)`)
	s.exec(`DELETE FROM calendar_versions`)
	s.exec(`UPDATE calendar_users SET version = (SELECT version FROM kept)`)
	s.exec(`SELECT setval('calendar_versions_made', (SELECT made FROM kept))`)
	s.exec(`ALTER TABLE calendars ENABLE TRIGGER USER`)
	s.at(utc("2026-01-01 12:10"))
	s.calendar("k", "UTC", `[{"name": "freeze", "start": "2026-01-02", "end": "2026-01-03"}]`)
	s.do(scheduler.Replan(t.Context()))
	s.do(scheduler.Plan(t.Context()))
	s.isNext(id, "2026-01-01 13:00")
}
