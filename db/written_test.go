package db_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

func TestCalendarsAndBlackoutWindowsAreWrittenForSuperadminsAlone(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('x', 'UTC', '[]'), ('y', 'UTC', '[]')`)
	b.exec(`INSERT INTO blackouts (name, calendar, user_id, mode) VALUES ('x', 'x', 7, 'skip')`)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id, calendar) VALUES ('x', 'web', 7, 'x') RETURNING id`)
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
			} {
				if does := may(b, tx, sql); does != (who.Role == identity.Superadmin) {
					t.Errorf("%s: %s: %v", name, sql, does)
				}
			}
			for _, sql := range []string{
				`INSERT INTO api.changeable_blackouts (name, calendar, mode, version) VALUES ('z', 'x', 'skip', 1)`, `UPDATE api.changeable_calendars SET version = 1`,
				`UPDATE api.changeable_calendars SET name = 'z' WHERE name = 'y'`, `UPDATE api.changeable_blackouts SET name = 'z'`, `UPDATE api.calendar_users SET calendar = 'y'`,
				`INSERT INTO calendars (name, time_zone, entries) VALUES ('z', 'UTC', '[]')`, `UPDATE blackouts SET mode = 'defer'`, `DELETE FROM calendars`,
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
