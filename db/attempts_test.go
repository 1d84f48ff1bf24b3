package db_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// attempts are writes by plain SQL that would break what the moves keep: each with the status it is tried in and what refuses
// it to the schema's owner. $1 is the connector.
var attempts = map[string]struct{ in, refusedBy, sql string }{
	"SYNCING to PENDING, keeping the run":    {"SYNCING", "connectors_moved_only", `UPDATE connectors SET status = 'PENDING' WHERE id = $1`},
	"another run while SYNCING":              {"SYNCING", "connectors_moved_only", `UPDATE connectors SET run_id = gen_random_uuid() WHERE id = $1`},
	"ACTIVE to PENDING by hand":              {"ACTIVE", "connectors_moved_only", `UPDATE connectors SET status = 'PENDING', run_id = gen_random_uuid(), next_sync_at = NULL, due_reason = NULL WHERE id = $1`},
	"ERROR to ACTIVE by hand":                {"ERROR", "connectors_moved_only", `UPDATE connectors SET status = 'ACTIVE' WHERE id = $1`},
	"DISABLED by hand":                       {"ACTIVE", "connectors_moved_only", `UPDATE connectors SET status = 'DISABLED' WHERE id = $1`},
	"a plan while DISABLED":                  {"DISABLED", "connectors_moved_only", `UPDATE connectors SET needs_plan = true WHERE id = $1`},
	"due while DISABLED":                     {"DISABLED", "connectors_moved_only", `UPDATE connectors SET next_sync_at = now(), due_reason = 'manual' WHERE id = $1`},
	"the cursor":                             {"ACTIVE", "connectors_moved_only", `UPDATE connectors SET state = '{"cursor":9}' WHERE id = $1`},
	"the configuration's version":            {"ACTIVE", "connectors_moved_only", `UPDATE connectors SET config_version = config_version + 1 WHERE id = $1`},
	"failures forgotten":                     {"ERROR", "connectors_moved_only", `UPDATE connectors SET failure_count = 0 WHERE id = $1`},
	"slots taken as answered":                {"ACTIVE", "connectors_moved_only", `UPDATE connectors SET slots_through = now() WHERE id = $1`},
	"another id":                             {"ACTIVE", "connectors_id_stays", `UPDATE connectors SET id = id + 1000 WHERE id = $1`},
	"another beginning":                      {"ACTIVE", "connectors_id_stays", `UPDATE connectors SET created_at = '2001-01-01' WHERE id = $1`},
	"a trigger at -infinity":                 {"ACTIVE", "connectors_trigger_range", `UPDATE connectors SET trigger_requested_at = '-infinity' WHERE id = $1`},
	"a trigger in the year 200000":           {"ACTIVE", "connectors_trigger_range", `UPDATE connectors SET trigger_requested_at = '200000-01-01' WHERE id = $1`},
	"a trigger before Christ":                {"PENDING", "connectors_trigger_range", `UPDATE connectors SET trigger_requested_at = '4000-01-01 BC' WHERE id = $1`},
	"a trigger while DISABLED":               {"DISABLED", "connectors_trigger_disabled", `UPDATE connectors SET trigger_requested_at = now() WHERE id = $1`},
	"a sync in the year 200000":              {"ACTIVE", "connectors_last_sync_range", `INSERT INTO connectors (name, type, user_id, last_sync_at, refresh_freq_minutes) SELECT 'a', 'web', 1, '200000-01-01', 5256000 WHERE $1 > 0`},
	"a sync at -infinity":                    {"ACTIVE", "connectors_last_sync_range", `INSERT INTO connectors (name, type, user_id, last_sync_at) SELECT 'a', 'web', 1, '-infinity' WHERE $1 > 0`},
	"a run of its own":                       {"ACTIVE", "connectors_status_move", `INSERT INTO connectors (name, type, user_id, status, run_id) SELECT 'a', 'web', 1, 'SYNCING', gen_random_uuid() WHERE $1 > 0`},
	"a verdict edited":                       {"ACTIVE", "runs_appended_only", `UPDATE runs SET status = 'failed' WHERE connector_id = $1`},
	"a verdict removed":                      {"ACTIVE", "runs_appended_only", `DELETE FROM runs WHERE connector_id = $1`},
	"a second open run":                      {"PENDING", "open_runs_one_per_connector", `INSERT INTO open_runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid()))).* FROM open_runs r WHERE connector_id = $1`},
	"more stored than there are":             {"SYNCING", "open_runs_stored_range", `UPDATE open_runs SET total = 1, stored = 2 WHERE connector_id = $1`},
	"whole without its documents":            {"SYNCING", "open_runs_whole", `UPDATE open_runs SET total = 2, stored = 1, whole = true WHERE connector_id = $1`},
	"picked up by nobody":                    {"PENDING", "open_runs_picked_up_by_a_try", `UPDATE open_runs SET picked_up_at = now() WHERE connector_id = $1`},
	"a checkpoint that nothing is stored of": {"SYNCING", "open_runs_checkpoint_stored", `UPDATE open_runs SET checkpoint_no = 5 WHERE connector_id = $1`},
}

func TestWhatWouldBreakTheMovesIsRefusedByNameToTheOwnerAndByRightToEachRole(t *testing.T) {
	b := newBase(t)
	for name, a := range attempts {
		t.Run(name, func(t *testing.T) {
			b := &base{t, b.url, b.conn}
			id := b.in(a.in)
			before := b.everything(id)
			b.refused(a.refusedBy, a.sql, id)
			for _, role := range roles {
				err := pgx.BeginFunc(t.Context(), b.conn, func(tx pgx.Tx) error {
					// The setting that lets moves pass is of no use to a role.
					for _, sql := range []string{`SET LOCAL ROLE echomind_` + role, `SET LOCAL echomind.moving = 'on'`} {
						if _, err := tx.Exec(t.Context(), sql); err != nil {
							return err
						}
					}
					_, err := tx.Exec(t.Context(), a.sql, id)
					return err
				})
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "42501" && pg.ConstraintName != a.refusedBy {
					t.Errorf("%s: %v", role, err)
				}
			}
			if after := b.everything(id); after != before {
				t.Errorf("changed\n%s\nto\n%s", before, after)
			}
		})
	}
}

func TestSwitchingTheMovesOnDoesNotLetAUserChangeAConfigurationUnseen(t *testing.T) {
	b := newBase(t)
	id := b.in("SYNCING")
	version := one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id)
	b.exec(`BEGIN`)
	b.exec(`SET LOCAL ROLE echomind_console`)
	b.exec(`SET LOCAL echomind.moving = 'on'`)
	b.exec(`UPDATE connectors SET config = '{"url":"https://example.org"}' WHERE id = $1`, id)
	b.exec(`COMMIT`)
	b.holds(id, `c.status = 'ACTIVE' AND c.due_reason = 'changed' AND c.state = '{}' AND r.status = 'superseded'`)
	if one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id) == version {
		t.Error("it has its old version")
	}
}

func TestNullBytesAndAbsurdNumbersAreRefusedAndChangeNothing(t *testing.T) {
	b := newBase(t)
	id := b.in("ACTIVE")
	before := b.everything(id)
	for _, sql := range []string{
		`UPDATE connectors SET name = E'a\x00b' WHERE id = $1`,
		`UPDATE connectors SET config = '{"a":"\u0000"}' WHERE id = $1`,
		`UPDATE connectors SET config = '{"a":NaN}' WHERE id = $1`,
		`UPDATE connectors SET refresh_freq_minutes = 99999999999 WHERE id = $1`,
		`UPDATE connectors SET trigger_requested_at = '999999-01-01' WHERE id = $1`,
		`SELECT moves.disable($1, E'\x00')`,
	} {
		_, err := b.conn.Exec(t.Context(), sql, id)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || !strings.HasPrefix(pg.Code, "22") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if after := b.everything(id); after != before {
		t.Errorf("changed\n%s\nto\n%s", before, after)
	}
}
