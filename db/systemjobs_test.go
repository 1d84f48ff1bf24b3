package db_test

import (
	"strings"
	"testing"
)

// systemJob adds a job of the system, and returns its id.
func (b *base) systemJob() int32 {
	b.Helper()
	b.moves("true", `SELECT moves.add_system_job('ledger_retention', 'old weeks', 60)`)
	return one[int32](b, `SELECT id FROM connectors WHERE scope = 'system'`)
}

func TestASystemJobHasNoOwnerAndIsTheOnlyOneOfItsType(t *testing.T) {
	b := newBase(t)
	id := b.systemJob()
	b.holds(id, `c.user_id IS NULL AND c.due_reason = 'new' AND c.due_at <= clock_timestamp()`)
	b.moves("false", `SELECT moves.add_system_job('ledger_retention', 'old weeks', 60)`)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('refresh', 'job')`)
	for constraint, sql := range map[string]string{
		"connectors_one_system_job":         `INSERT INTO connectors (name, type, scope) VALUES ('again', 'ledger_retention', 'system')`,
		"connectors_owner":                  `UPDATE connectors SET user_id = 1`,
		"connectors_system_has_no_scope_id": `UPDATE connectors SET scope_id = 'g'`,
		"connectors_system_type":            `INSERT INTO connectors (name, type, user_id) VALUES ('mine', 'ledger_retention', 1)`,
		"connectors_system_stays":           `UPDATE connectors SET scope = 'user', user_id = 1`,
		"connector_types_system_is_job":     `INSERT INTO connector_types (name, system, max_concurrent_syncs) VALUES ('x', true, 0)`,
		"connector_types_system_has_no_cap": `INSERT INTO connector_types (name, kind, system) VALUES ('x', 'job', true)`,
		"connector_types_system_stays":      `UPDATE connector_types SET system = true, max_concurrent_syncs = 0 WHERE name = 'refresh'`,
	} {
		b.refused(constraint, sql)
	}
	b.refused("connectors_owner", `INSERT INTO connectors (name, type) VALUES ('x', 'web')`)
	b.refused("connectors_system_type", `INSERT INTO connectors (name, type, scope) VALUES ('x', 'web', 'system')`)
}

func TestAddingASystemJobThatIsThereChangesNothingOfWhatAnAdministratorHasSaid(t *testing.T) {
	b := newBase(t)
	id := b.systemJob()
	b.exec(`UPDATE connectors SET refresh_freq_minutes = 7, name = 'mine' WHERE id = $1`, id)
	b.moves("true", `SELECT moves.disable($1)`, id)
	b.moves("false", `SELECT moves.add_system_job('ledger_retention', 'old weeks', 60)`)
	b.holds(id, `c.status = 'DISABLED' AND c.refresh_freq_minutes = 7 AND c.name = 'mine'`)
}

func TestASystemJobRunsLikeAnyOtherAndItsRunHoldsNobodysPlace(t *testing.T) {
	b := newBase(t)
	id := b.systemJob()
	try := b.syncing(id)
	if owner := one[int](b, `SELECT user_id FROM open_runs`); owner != 0 {
		t.Errorf("its run is of user %d", owner)
	}
	b.moves("true", `SELECT moves.end_job($1, $2, '{"weeks": 1}')`, try.Run, try.ID)
	b.holds(id, `c.status = 'ACTIVE' AND c.due_reason = 'schedule'`)
	if n := one[int](b, `SELECT count(*) FROM owner_counts`); n != 0 {
		t.Error("it counts as somebody's")
	}
}

func TestUsersNeitherAddNorChangeTriggerSwitchNorDeleteASystemJob(t *testing.T) {
	b := newBase(t)
	id := b.systemJob()
	b.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('mine', 'job', true, 0)`)
	b.exec(`CREATE ROLE echomind_keeper_of_system_jobs IN ROLE echomind_console, echomind_administrator`) // roles are the cluster's
	defer b.exec(`DROP ROLE echomind_keeper_of_system_jobs`)
	for _, sql := range []string{
		`INSERT INTO connectors (name, type, scope) VALUES ('x', 'mine', 'system')`,
		`UPDATE connectors SET name = 'y' WHERE scope = 'system'`,
		`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE scope = 'system'`,
		`DELETE FROM connectors WHERE scope = 'system'`,
		`SELECT moves.trigger_sync(ID)`, `SELECT moves.trigger_sync(ID, false, '{"a": 1}')`, `SELECT moves.disable(ID)`, `SELECT moves.wait_for_slot(ID)`,
	} {
		sql = strings.ReplaceAll(sql, "ID", one[string](b, `SELECT $1::int::text`, id))
		if b.tries("console", sql) {
			t.Errorf("the console may %s", sql)
		}
		if !b.tries("keeper_of_system_jobs", sql) {
			t.Errorf("an administrator may not %s", sql)
		}
	}
	b.moves("true", `SELECT moves.disable($1)`, id)
	if b.tries("console", `SELECT moves.enable(`+one[string](b, `SELECT $1::int::text`, id)+`)`) {
		t.Error("the console may enable it")
	}
}
