//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const holidays = `[{"name": "Neujahr", "start": "2026-01-01", "rule": "FREQ=YEARLY"}, {"name": "Heiligabend", "start": "2026-12-24T12:00", "end": "2026-12-25", "rule": "FREQ=YEARLY"}]`

func (s simulated) calendar(name, zone, entries string) {
	s.Helper()
	s.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ($1, $2, $3::jsonb)
		ON CONFLICT (name) DO UPDATE SET time_zone = EXCLUDED.time_zone, entries = EXCLUDED.entries`, name, zone, entries)
}

func TestSlotsOnACalendarAreSkippedWithItsNameForTheTime(t *testing.T) {
	s := setClock(t, utc("2025-12-31 12:00"))
	s.calendar("holidays-de", "Europe/Berlin", holidays)
	id := s.synced(row{"schedule_cron": "0 */6 * * *", "calendar": "holidays-de"})
	interval := s.synced(row{"refresh_freq_minutes": 600, "spread_percent": 0, "calendar": "holidays-de"})
	free := s.synced(row{"schedule_cron": "0 */6 * * *"})
	s.at(utc("2025-12-31 18:00"))
	s.look()
	s.completes(id)
	s.completes(free)
	s.isNext(id, "2026-01-02 00:00") // Neujahr lasts from 23:00 until 23:00 UTC
	s.isNext(free, "2026-01-01 00:00")
	s.at(utc("2025-12-31 22:00"))
	s.look()
	s.at(utc("2025-12-31 22:30"))
	s.completes(interval)
	s.isNext(interval, "2026-01-01 08:30")
	s.at(utc("2026-01-01 08:30"))
	s.look()
	s.isNext(interval, "2026-01-01 23:00")
	s.at(utc("2026-01-02 00:00"))
	s.look()
	s.isLedger(id, "completed 31 18:00", "skipped: calendar `holidays-de`: Neujahr 01 00:00-01 18:00 x4", "running 02 00:00")
	s.isLedger(interval, "completed 31 22:00", "skipped: calendar `holidays-de`: Neujahr 01 08:30-01 08:30 x1", "running 01 23:00")
}

func TestWhatSomebodyAsksForRunsWhateverTheCalendarSays(t *testing.T) {
	s := setClock(t, utc("2025-12-31 12:00"))
	s.calendar("holidays-de", "UTC", holidays)
	id := s.synced(row{"schedule_cron": "0 */6 * * *", "calendar": "holidays-de"})
	s.at(utc("2026-01-01 09:00"))
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	if n := s.look(); n != 1 {
		t.Errorf("%d were claimed, want the one that somebody has asked for", n)
	}
	s.completes(id)
	s.isNext(id, "2026-01-02 00:00")
}

func TestAChangedCalendarPlansAnewWhoNamesIt(t *testing.T) {
	s := setClock(t, utc("2025-12-31 12:00"))
	s.calendar("holidays-de", "UTC", holidays)
	var named []int32
	for range 5 {
		named = append(named, s.synced(row{"schedule_cron": "0 6 * * *", "calendar": "holidays-de"}))
	}
	only := s.synced(row{"schedule_cron": "0 6 1 1 *", "calendar": "holidays-de", "calendar_use": "only"})
	off := s.synced(row{"schedule_cron": "0 6 * * *", "calendar": "holidays-de"})
	s.exec(`SELECT moves.disable($1)`, off)
	interval := s.synced(row{"refresh_freq_minutes": 1200, "spread_percent": 0, "calendar": "holidays-de"})
	s.at(utc("2026-01-01 08:00"))
	s.look()
	s.isNext(named[0], "2026-01-02 06:00")
	s.isNext(interval, "2026-01-02 00:00")
	s.at(utc("2026-01-01 08:10"))
	s.calendar("holidays-de", "UTC", `[{"name": "Epiphanie", "start": "2026-01-06"}]`)
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 2 })
	s.do(scheduler.Replan(t.Context()))
	s.do(scheduler.Plan(t.Context()))
	for _, id := range named {
		s.isNext(id, "2026-01-01 06:00") // its slot of today is not answered yet
	}
	s.isNext(interval, "2026-01-01 08:10")
	want(s.stage, 0, `SELECT count(*) FROM calendar_changes`)
	want(s.stage, true, `SELECT run_id IS NOT NULL FROM connectors WHERE id = $1`, only) // in flight it stays as it is
	want(s.stage, true, `SELECT next_sync_at IS NULL AND NOT needs_plan FROM connectors WHERE id = $1`, off)
	s.look()
	s.isLedger(named[0], "running 01 06:00")
	s.completes(named[0])
	s.isNext(named[0], "2026-01-02 06:00")
	s.at(utc("2026-01-05 07:00"))
	s.look()
	s.completes(named[0])
	s.isNext(named[0], "2026-01-07 06:00")
	want(s.stage, 1, `SELECT count(*) FROM calendar_versions`)
}

func TestACalendarThatChangesDuringARunWithParametersCounts(t *testing.T) {
	s := setClock(t, utc("2025-12-31 12:00"))
	s.ofJobs()
	s.calendar("release-days", "UTC", `[{"name": "r1", "start": "2026-01-01"}]`)
	tried := s.synced(row{"schedule_cron": "0 6 * * *", "calendar": "release-days", "calendar_use": "only"})
	other := s.synced(row{"schedule_cron": "0 6 * * *", "calendar": "release-days", "calendar_use": "only"})
	s.at(utc("2026-01-01 08:00"))
	s.look()
	s.completes(tried)
	s.completes(other)
	s.at(utc("2026-01-02 08:00"))
	s.look()
	s.exec(dryRun, tried)
	s.at(utc("2026-01-02 08:01"))
	s.look()
	s.isIn(tried, true)
	s.calendar("release-days", "UTC", `[{"name": "r1", "start": "2026-01-01"}, {"name": "r2", "start": "2026-01-10"}]`)
	sch := s.scheduler()
	s.do(sch.Replan(t.Context()))
	s.do(sch.Plan(t.Context()))
	want(s.stage, 0, `SELECT count(*) FROM calendar_changes`)
	s.completes(tried)
	s.do(sch.Plan(t.Context()))
	s.at(utc("2026-01-10 07:00"))
	s.look()
	for _, id := range []int32{tried, other} {
		s.isIn(id, false)
	}
	if with, without := s.ledger(tried), s.ledger(other); !slices.Equal(with[len(with)-2:], without[len(without)-2:]) {
		t.Errorf("%v, without a dry run %v", with, without)
	}
}

func TestSlotsBeforeAChangeAreDecidedByTheCalendarAsItWas(t *testing.T) {
	s := setClock(t, utc("2025-12-31 12:00"))
	s.calendar("holidays-de", "UTC", holidays)
	id := s.synced(row{"schedule_cron": "0 */6 * * *", "calendar": "holidays-de"})
	s.at(utc("2025-12-31 18:00"))
	s.look()
	s.completes(id)
	s.at(utc("2026-01-01 13:00"))
	s.exec(`UPDATE connectors SET calendar = NULL WHERE id = $1`, id)
	s.calendar("holidays-de", "UTC", `[]`)
	s.do(s.scheduler().Replan(t.Context()))
	s.do(s.scheduler().MissPassed(t.Context()))
	s.plan()
	s.isLedger(id, "completed 31 18:00", "skipped: calendar `holidays-de`: Neujahr 01 00:00-01 12:00 x3")
	s.isNext(id, "2026-01-01 18:00")
}

func TestACalendarThatCannotBeReadIsTheProblemOfWhoNamesIt(t *testing.T) {
	s := setClock(t, utc("2025-12-31 12:00"))
	s.calendar("broken", "UTC", holidays)
	cron := s.synced(row{"schedule_cron": "0 */6 * * *", "calendar": "broken"})
	interval := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0, "calendar": "broken"})
	other := s.synced(row{"schedule_cron": "0 */6 * * *"})
	s.exec(`UPDATE calendars SET entries = '[{"name": "x", "start": "soon"}]'`)
	s.at(utc("2025-12-31 18:00"))
	if n := s.look(); n != 1 { // before anybody has planned them anew
		t.Errorf("%d were claimed, want the one without a calendar", n)
	}
	s.isLedger(cron, "missed: calendar `broken` cannot be read 31 18:00-31 18:00 x1")
	s.isLedger(interval, "missed: calendar `broken` cannot be read 31 13:00-31 13:00 x1")
	s.isNext(cron, "-")
	says := one[string](s.stage, `SELECT status_message FROM connectors WHERE id = $1`, cron)
	if !strings.HasPrefix(says, "calendar `broken` cannot be read: bad calendar: entry 1 (x): start \"soon\": must be a day") {
		t.Errorf("it says %q", says)
	}
	s.completes(other)
	fresh := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": "0 * * * *", "run_at_once": true, "calendar": "broken"})
	s.plan()
	s.isNext(fresh, "-")
	s.calendar("broken", "UTC", `[]`)
	s.do(s.scheduler().Replan(t.Context()))
	s.plan()
	s.isNext(cron, "2026-01-01 00:00")
	want(s.stage, true, `SELECT status_message IS NULL AND status = 'ACTIVE' FROM connectors WHERE id = $1`, cron)
	want(s.stage, true, `SELECT due_reason = 'new' FROM connectors WHERE id = $1`, fresh)
}

func TestCalendarsAreReadOnceForEachVersionAndByNobodyElse(t *testing.T) {
	s := setClock(t, utc("2025-12-31 12:00"))
	s.calendar("holidays-de", "UTC", holidays)
	for range 3 {
		s.synced(row{"schedule_cron": "0 * * * *", "calendar": "holidays-de"})
	}
	plain := s.synced(row{"schedule_cron": "0 * * * *"})
	scheduler := s.scheduler()
	s.exec(`ALTER TABLE calendars RENAME TO hidden`)
	s.exec(`DELETE FROM connectors WHERE calendar IS NOT NULL`)
	s.exec(`CREATE VIEW calendars AS SELECT name, 1 / (version - version) AS version, time_zone, entries FROM hidden`)
	s.at(utc("2025-12-31 13:00"))
	s.claim(scheduler)
	s.isLedger(plain, "running 31 13:00")
	s.exec(`DROP VIEW calendars`)
	s.exec(`ALTER TABLE hidden RENAME TO calendars`)
	id := s.synced(row{"schedule_cron": "0 * * * *", "calendar": "holidays-de"})
	for hour := 14; hour < 17; hour++ {
		s.at(utc("2025-12-31 00:00").Add(time.Duration(hour) * time.Hour))
		s.claim(scheduler)
		s.completes(id)
	}
	if n := len(scheduler.calendars.known); n != 1 {
		t.Errorf("%d calendars are remembered, want 1", n)
	}
}
