package db_test

import (
	"strings"
	"testing"
)

func TestOnlyAnAdministratorWritesBlackoutWindowsAndProviders(t *testing.T) {
	b := newBase(t)
	b.exec(aCalendar)
	b.exec(window("b", "cal", "NULL", "NULL", "NULL", "'skip'", "1"))
	for what, sql := range map[string]string{
		"add": window("c", "cal", "1", "NULL", "NULL", "'defer'", "1"), "change": `UPDATE blackouts SET mode = 'defer'`, "delete": `DELETE FROM blackouts`,
		"take a type from": `UPDATE connector_types SET provider = NULL`,
	} {
		for _, role := range roles {
			if b.tries(role, sql) {
				t.Errorf("%s may %s a window", role, what)
			}
		}
		if !b.tries("administrator", sql) {
			t.Errorf("an administrator may not %s a window", what)
		}
	}
}

func TestABlackoutWindowIsRefusedWithWhatIsWrong(t *testing.T) {
	b := newBase(t)
	b.exec(aCalendar)
	b.exec(window("b", "cal", "NULL", "NULL", "NULL", "'skip'", "1"))
	b.refused("blackouts_name_stays", `UPDATE blackouts SET name = 'c'`)
	b.refused("blackouts_provider_known", `UPDATE blackouts SET provider = 'nobody'`)
	b.refused("blackouts_calendar_known", `DELETE FROM calendars`)
	b.exec(`INSERT INTO blackouts (name, calendar, mode) SELECT 'w' || i, 'cal', 'skip' FROM generate_series(1, 99) i`)
	b.refused("blackouts_count", window("more", "cal", "NULL", "NULL", "NULL", "'skip'", "1"))
	b.exec(window("b", "cal", "7", "NULL", "NULL", "'skip'", "1") + ` ON CONFLICT (name) DO UPDATE SET user_id = EXCLUDED.user_id`)
	b.moves("7", `SELECT user_id FROM blackouts WHERE name = 'b'`)
}

func TestAChangedWindowAndAChangedCalendarAreNewVersions(t *testing.T) {
	b := newBase(t)
	b.exec(aCalendar)
	b.exec(window("b", "cal", "NULL", "NULL", "NULL", "'skip'", "1"))
	before := one[int](b, `SELECT version FROM blackout_windows`)
	for _, sql := range []string{`UPDATE blackouts SET mode = 'defer', version = 5`, `UPDATE calendars SET entries = '[{"name": "x", "start": "2026-01-01"}]'`} {
		if told := b.told(sql); len(told) == 0 {
			t.Errorf("nobody is told of %s", sql)
		}
		now := one[int](b, `SELECT version FROM blackout_windows`)
		if now <= before {
			t.Errorf("%s: version %d follows %d", sql, now, before)
		}
		before = now
	}
}

func TestATypeThatChangesItsProviderIsOfItsWindows(t *testing.T) {
	b := newBase(t)
	b.exec(aCalendar)
	b.exec(`INSERT INTO blackouts (name, calendar, mode, provider) VALUES ('b', 'cal', 'skip', 'microsoft')`)
	b.moves("{onedrive,teams}", `SELECT types::text FROM blackout_windows`)
	before := one[int](b, `SELECT version FROM blackout_windows`)
	b.exec(`UPDATE connector_types SET provider = 'microsoft' WHERE name = 'web'`)
	b.moves("{onedrive,teams,web}", `SELECT types::text FROM blackout_windows`)
	if now := one[int](b, `SELECT version FROM blackout_windows`); now <= before {
		t.Errorf("version %d follows %d", now, before)
	}
}

func TestAWindowIsInTheAudit(t *testing.T) {
	b := newBase(t)
	b.exec(aCalendar)
	b.exec(window("b", "cal", "NULL", "NULL", "NULL", "'skip'", "1"))
	b.exec(`DELETE FROM blackouts`)
	if got := one[string](b, `SELECT string_agg(action || ' ' || object_id, ', ' ORDER BY id) FROM audit WHERE action LIKE 'blackouts.%'`); !strings.HasPrefix(got, "blackouts.create b") {
		t.Errorf("the audit has %q", got)
	}
}
