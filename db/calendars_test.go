package db_test

import (
	"strings"
	"testing"

	"github.com/echomind/sync/testonly/movestest"
)

const newYear = `[{"name": "Neujahr", "start": "2026-01-01"}]`

// planned adds hourly connectors that name a calendar, as if they had been planned.
func (b *base) planned(n int, calendar string) {
	b.Helper()
	b.force(`INSERT INTO connectors (name, type, user_id, schedule_cron, last_sync_at, calendar)
		SELECT 'c' || i, 'web', 1, '0 * * * *', now(), $2 FROM generate_series(1, $1) i`, n, calendar)
	b.force(`UPDATE connectors SET needs_plan = false, next_sync_at = now() + interval '1 hour', due_reason = 'schedule', slot_at = now() + interval '1 hour'
		WHERE needs_plan`)
}

func TestAChangedCalendarHasThoseThatNameItPlannedAnewPastOneThatIsHeld(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', '[]'), ('b', 'UTC', '[]')`)
	b.planned(10, "a")
	b.planned(3, "b")
	b.moves("0", `SELECT moves.replan_calendars(4)`)
	if told := b.told(`UPDATE calendars SET entries = $1 WHERE name = 'a'`, newYear); len(told) != 1 || told[0] != "" {
		t.Errorf("told %q", told)
	}
	holder := b.other()
	tx, err := holder.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held := one[int32](b, `SELECT id FROM connectors WHERE calendar = 'a' ORDER BY id OFFSET 5 LIMIT 1`)
	if _, err := tx.Exec(t.Context(), `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, held); err != nil {
		t.Fatal(err)
	}
	b.moves("4", `SELECT moves.replan_calendars(4)`)
	b.moves("4", `SELECT moves.replan_calendars(4)`)
	b.moves("1", `SELECT moves.replan_calendars(4)`) // all but the one that is held
	b.moves("0", `SELECT moves.replan_calendars(4)`)
	b.holds(held, `NOT c.needs_plan AND c.next_sync_at IS NOT NULL`)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.moves("1", `SELECT moves.replan_calendars(4)`)
	b.moves("0", `SELECT moves.replan_calendars(4)`)
	if n := one[int](b, `SELECT count(*) FROM connectors WHERE needs_plan AND next_sync_at IS NULL AND due_reason = 'schedule' AND calendar = 'a'`); n != 10 {
		t.Errorf("%d are planned anew, want 10", n)
	}
	if n := one[int](b, `SELECT count(*) FROM connectors WHERE needs_plan AND calendar = 'b'`); n != 0 {
		t.Errorf("%d of another calendar are planned anew", n)
	}
}

func TestEachChangeOfACalendarIsAVersionAndTheLastAreKept(t *testing.T) {
	b := newBase(t)
	version := func() int { return one[int](b, `SELECT version FROM calendars`) }
	b.exec(`INSERT INTO calendars (name, time_zone, entries, version) VALUES ('a', 'UTC', '[]', 99)`)
	first := version()
	b.exec(`UPDATE calendars SET version = 7, updated_by = 'me'`)
	if version() != first {
		t.Error("a version is written")
	}
	if n := b.count("calendar_changes"); n != 0 {
		t.Errorf("%d calendars have changed", n)
	}
	last := first
	for range 25 {
		b.exec(`UPDATE calendars SET entries = entries || '{"name": "x", "start": "2026-01-01"}'`)
		if now := version(); now > last {
			last = now
		} else {
			t.Errorf("version %d behind %d", now, last)
		}
	}
	if n := b.count("calendar_versions"); n != 20 {
		t.Errorf("%d versions are kept, want 20", n)
	}
	b.refused("calendars_name_stays", `UPDATE calendars SET name = 'b'`)
	b.connector()
	b.exec(`UPDATE connectors SET calendar = 'a'`)
	b.refused("connectors_calendar_known", `DELETE FROM calendars`)
	b.exec(`UPDATE connectors SET calendar = NULL`)
	b.exec(`DELETE FROM calendars`)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', '[]')`)
	if now := version(); now <= last {
		t.Errorf("version %d was another's", now)
	}
	b.refused("connectors_policies", `UPDATE connectors SET calendar_use = 'sometimes'`)
}

// Slots of before a change are decided by what stood then: that is kept, whatever the clock says of when it was replaced.
func TestTheLastVersionsOfACalendarAreKeptAfterTheClockHasSteppedBack(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', '[]')`)
	change := func() (replaced int64) {
		replaced = one[int64](b, `SELECT version FROM calendars`)
		b.exec(`UPDATE calendars SET entries = entries || '{"name": "x", "start": "2026-01-01"}'`)
		return replaced
	}
	for range 20 {
		change()
	}
	b.exec(`UPDATE calendar_versions SET replaced_at = replaced_at + interval '1 hour'`)
	replaced := change()
	if !one[bool](b, `SELECT EXISTS (SELECT FROM calendar_versions WHERE version = $1)`, replaced) {
		t.Error("the version that was replaced last is gone")
	}
	b.exec(`UPDATE calendar_versions SET version = version + 3600 * 1000000000::bigint`)
	b.exec(`DELETE FROM calendars`)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', '[]')`)
	if one[bool](b, `SELECT version < (SELECT max(version) FROM calendar_versions) FROM calendars`) {
		t.Error("a calendar that was added anew has a version of before")
	}
}

func TestOnlyAnAdministratorWritesCalendars(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', '[]')`)
	for what, sql := range map[string]string{
		"add": `INSERT INTO calendars (name, time_zone, entries) VALUES ('x', 'UTC', '[]')`, "change": `UPDATE calendars SET entries = '[{}]'`,
		"delete": `DELETE FROM calendars`,
	} {
		for _, role := range roles {
			if b.tries(role, sql) {
				t.Errorf("%s may %s a calendar", role, what)
			}
		}
		if !b.tries("administrator", sql) {
			t.Errorf("an administrator may not %s a calendar", what)
		}
	}
}

// However many connectors name no calendar, and whatever the planner believes of the table, a batch reads its own.
func TestPlanningABatchAnewReadsNoOthers(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', '[]')`)
	w := b.watched()
	b.force(`INSERT INTO connectors (name, type, user_id) SELECT 'c' || i, 'web', 1 + i % 9 FROM generate_series(1, 200) i`)
	movestest.Multiply(b, b.conn, 100)
	b.planned(100, "a")
	b.exec(`UPDATE calendars SET entries = $1`, newYear)
	w.on = true
	w.moves("10", `SELECT moves.replan_calendars(10)`)
	w.on = false
	pages := one[int](b, `SELECT pg_relation_size('connectors') / 8192`)
	for query, r := range w.reads {
		t.Logf("%d buffers, of a table of %d pages: %.100s", r.most, pages, query)
		isMove := strings.HasPrefix(query, "SELECT coalesce((SELECT moves.") // whose statements are counted one by one
		if isWrite := strings.HasPrefix(query, "UPDATE connectors"); r.most > 100 && !isMove && !isWrite || r.most > pages && !isMove {
			t.Errorf("%d buffers: %.150s", r.most, query)
		}
	}
	if len(w.reads) == 0 {
		t.Error("nothing was counted")
	}
}

// Versions that were given before a clock stepped back lie ahead of it; those of calendars that were added together are neighbours.
func TestCalendarsThatWereAddedTogetherAreChangedAfterTheClockHasSteppedBack(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) SELECT n, 'UTC', '[]' FROM unnest('{a,b,c}'::text[]) n`)
	b.exec(`ALTER TABLE calendars DISABLE TRIGGER USER`)
	b.exec(`UPDATE calendars SET version = (SELECT min(version) FROM calendars) + 3600 * 1000000000::bigint + ascii(name) - ascii('a')`)
	b.exec(`ALTER TABLE calendars ENABLE TRIGGER USER`)
	for range 3 {
		b.exec(`UPDATE calendars SET entries = entries || '[{"name": "x", "start": "2030-01-01"}]' WHERE name = 'a'`)
	}
	b.exec(`UPDATE calendars SET entries = '[{"name": "y", "start": "2030-01-01"}]'`)
	b.exec(`DELETE FROM calendars WHERE name IN ('b', 'c')`)
	if n := one[int64](b, `SELECT count(DISTINCT version) FROM (SELECT version FROM calendars UNION ALL SELECT version FROM calendar_versions) v`); n != 9 {
		t.Errorf("of 8 former versions and the one of a, %d differ", n)
	}
}
