package db_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

func TestCalendarsBlackoutWindowsAndLimitsAreWrittenForSuperadminsAlone(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('x', 'UTC', '[]'), ('y', 'UTC', '[]')`)
	b.exec(`INSERT INTO blackouts (name, calendar, user_id, mode) VALUES ('x', 'x', 7, 'skip')`)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id, calendar) VALUES ('x', 'web', 7, 'x') RETURNING id`)
	b.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES (7, 1)`)
	b.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('x', 1)`)
	all := viewers()
	all["nobody"] = identity.Who{}
	for name, who := range all {
		b.serves(who, func(tx pgx.Tx) {
			for _, sql := range []string{
				`SELECT FROM api.changeable_calendars WHERE name = 'y' FOR UPDATE`, `SELECT FROM api.calendar_users WHERE connector_id = ` + fmt.Sprint(id),
				`INSERT INTO api.changeable_calendars (name, time_zone, entries) VALUES ('z', 'UTC', '[]')`,
				`INSERT INTO api.changeable_calendars (name, time_zone, entries) VALUES ('z', 'UTC', '[]') ON CONFLICT (name) DO NOTHING`,
				`UPDATE api.changeable_calendars SET time_zone = 'Europe/Berlin' WHERE name = 'x'`, `DELETE FROM api.changeable_calendars WHERE name = 'y'`,
				`SELECT FROM api.changeable_blackouts FOR UPDATE`, `INSERT INTO api.changeable_blackouts (name, calendar, user_id, mode) VALUES ('z', 'x', 7, 'skip')`,
				`UPDATE api.changeable_blackouts SET mode = 'defer' WHERE name = 'x'`, `DELETE FROM api.changeable_blackouts WHERE name = 'x'`,
				`SELECT FROM api.changeable_limits WHERE user_id = 7 FOR UPDATE`, `INSERT INTO api.changeable_limits (user_id, max_bytes) VALUES (8, 1) ON CONFLICT (user_id) DO NOTHING`,
				`UPDATE api.changeable_limits SET max_connectors = 2 WHERE user_id = 7`, `DELETE FROM api.changeable_limits WHERE user_id = 7`,
				`SELECT FROM api.changeable_key_limits FOR UPDATE`, `INSERT INTO api.changeable_key_limits (key, most) VALUES ('z', 1) ON CONFLICT (key) DO NOTHING`,
				`UPDATE api.changeable_key_limits SET most = 2 WHERE key = 'x'`, `DELETE FROM api.changeable_key_limits WHERE key = 'x'`,
			} {
				if does := may(b, tx, sql); does != (who.Role == identity.Superadmin) {
					t.Errorf("%s: %s: %v", name, sql, does)
				}
			}
			for _, sql := range []string{
				`INSERT INTO api.changeable_blackouts (name, calendar, mode, version) VALUES ('z', 'x', 'skip', 1)`, `UPDATE api.changeable_calendars SET version = 1`,
				`UPDATE api.changeable_calendars SET name = 'z' WHERE name = 'y'`, `UPDATE api.changeable_blackouts SET name = 'z'`, `UPDATE api.calendar_users SET calendar = 'y'`,
				`INSERT INTO calendars (name, time_zone, entries) VALUES ('z', 'UTC', '[]')`, `UPDATE blackouts SET mode = 'defer'`, `DELETE FROM calendars`,
				`UPDATE api.changeable_limits SET user_id = 9`, `UPDATE api.changeable_key_limits SET key = 'z'`, `INSERT INTO api.changeable_key_limits (key, most, updated_at) VALUES ('z', 1, now())`,
				`UPDATE api.key_limits SET most = 2`, `UPDATE api.limits SET max_connectors = 2`, `UPDATE owner_quotas SET max_connectors = 2`, `DELETE FROM concurrency_limits`,
			} {
				if tried := tries(b, tx, sql); tried != "42501" {
					t.Errorf("%s: %s: %s", name, sql, tried)
				}
			}
		})
	}
}

func TestWhoWroteACalendarIsTrueHoweverItWasWritten(t *testing.T) {
	b := newBase(t)
	login := "login " + one[string](b, `SELECT session_user`)
	by := func(want string) {
		t.Helper()
		if is := one[string](b, `SELECT created_by || ', ' || updated_by FROM calendars`); is != want {
			t.Errorf("%s, want %s", is, want)
		}
	}
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('x', 'UTC', '[]')`)
	by(login + ", " + login)
	b.exec(`UPDATE calendars SET time_zone = 'Europe/Berlin', updated_by = 'alice'`)
	by(login + ", alice")
	b.exec(`UPDATE calendars SET time_zone = 'Europe/Berlin'`)
	by(login + ", alice")
	b.exec(`UPDATE calendars SET time_zone = 'UTC'`)
	by(login + ", " + login)
}
