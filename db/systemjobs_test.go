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
		"connectors_one_system_job":          `INSERT INTO connectors (name, type, scope) VALUES ('again', 'ledger_retention', 'system')`,
		"connectors_owner":                   `UPDATE connectors SET user_id = 1`,
		"connectors_system_has_no_scope_id":  `UPDATE connectors SET scope_id = 'g'`,
		"connectors_system_type":             `INSERT INTO connectors (name, type, user_id) VALUES ('mine', 'ledger_retention', 1)`,
		"connectors_system_stays":            `UPDATE connectors SET scope = 'user', user_id = 1`,
		"connector_types_system_is_job":      `INSERT INTO connector_types (name, system, max_concurrent_syncs) VALUES ('x', true, 0)`,
		"connector_types_system_has_no_cap":  `INSERT INTO connector_types (name, kind, system) VALUES ('x', 'job', true)`,
		"connector_types_system_has_no_keys": `UPDATE connector_types SET concurrency_keys = '{a}' WHERE name = 'ledger_retention'`,
		"connector_types_system_stays":       `UPDATE connector_types SET system = true, max_concurrent_syncs = 0 WHERE name = 'refresh'`,
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

func TestASystemJobIsTriedAgainAfterEachFailure(t *testing.T) {
	for _, kind := range []string{"transient", "permanent", "too_long", "relist"} {
		b := newBase(t)
		id := b.systemJob()
		b.exec(`UPDATE connectors SET max_retries = 1`)
		try := b.syncing(id)
		b.moves("true", `SELECT moves.fail($1, $2, $3, 'poisoned')`, try.Run, try.ID, kind)
		b.holds(id, `c.status = 'ERROR' AND c.failure_count = 1 AND c.due_reason = 'retry' AND c.next_sync_at < clock_timestamp() + interval '3 minutes'`)
	}
}

func TestNobodyTakesTheNameOfASystemJobForATypeOfHisOwn(t *testing.T) {
	b := newBase(t)
	b.refused("connector_types_name_is_the_systems", `INSERT INTO connector_types (name, kind) VALUES ('audit_retention', 'job')`)
}

func TestWhatKeepsASystemJobFromBeingAddedIsTold(t *testing.T) {
	b := newBase(t)
	b.exec(`CREATE UNIQUE INDEX one_of_a_name ON connectors (name)`)
	b.moves("true", `SELECT moves.add_system_job('orphan_sweep', 'old weeks', 60)`)
	b.refused("one_of_a_name", `SELECT moves.add_system_job('ledger_retention', 'old weeks', 60)`)
}

func TestASystemJobOfAnAdministratorsOwnIsLateAfterADayTooUnlessHeSaysOtherwise(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('tidy', 'job', true, 0), ('tell', 'job', true, 0)`)
	b.exec(`INSERT INTO connectors (name, type, scope, fresh_within_minutes) VALUES ('tidy', 'tidy', 'system', NULL), ('tell', 'tell', 'system', 10080)`)
	if got := one[string](b, `SELECT string_agg(concat(type, ' ', fresh_within_minutes), ', ' ORDER BY type) FROM connectors`); got != "tell 10080, tidy 1440" {
		t.Error(got)
	}
	b.exec(`UPDATE connectors SET fresh_within_minutes = NULL`)
	if n := one[int](b, `SELECT count(*) FROM connector_freshness WHERE fresh_until < now() + interval '10 years'`); n != 0 {
		t.Errorf("%d are late after a time that nobody wants", n)
	}
}

func TestASystemJobThatDoesNotCompleteIsLateAfterADay(t *testing.T) {
	b := newBase(t)
	id := b.systemJob()
	late := func() float64 {
		return one[float64](b, `SELECT extract(epoch FROM f.fresh_until - coalesce(c.last_sync_at, c.created_at))::float8 FROM connector_freshness f JOIN connectors c ON c.id = f.connector_id WHERE c.id = $1`, id)
	}
	if s := late(); s != 86400 {
		t.Errorf("it is late after %v s", s)
	}
	b.moves("true", `SELECT moves.disable($1)`, id)
	if s := late(); s != 86400 {
		t.Errorf("once it is disabled, it is late after %v s", s)
	}
}

func TestADeletedConnectorBringsTheOrphanSweepForward(t *testing.T) {
	b := newBase(t)
	b.moves("true", `SELECT moves.add_system_job('orphan_sweep', 'documents of deleted connectors', 60)`)
	id := one[int32](b, `SELECT id FROM connectors WHERE scope = 'system'`)
	try := b.syncing(id)
	b.moves("true", `SELECT moves.end_job($1, $2, '{}')`, try.Run, try.ID)
	b.moves("false", `SELECT moves.hurry_orphan_sweep()`)
	b.exec(`DELETE FROM connectors WHERE id = $1`, b.connector())
	b.holds(id, `c.due_at > clock_timestamp()`)
	b.moves("true", `SELECT moves.hurry_orphan_sweep()`)
	b.holds(id, `c.due_at <= clock_timestamp() AND c.due_reason = 'schedule' AND c.slot_at = c.next_sync_at`)
	b.moves("false", `SELECT moves.hurry_orphan_sweep()`)
	try = b.syncing(id)
	b.moves("false", `SELECT moves.hurry_orphan_sweep()`)
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'poisoned')`, try.Run, try.ID)
	b.moves("false", `SELECT moves.hurry_orphan_sweep()`)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('office', 'UTC', '[]')`)
	b.exec(`INSERT INTO conditions (name, query) VALUES ('quiet', 'SELECT true')`)
	for _, own := range []string{"calendar = 'office'", "condition = 'quiet'", "refresh_freq_minutes = NULL, schedule_cron = '0 3 * * *'"} {
		b.exec(`UPDATE connectors SET calendar = NULL, condition = NULL WHERE id = $1`, id)
		b.exec(`SELECT moves.enable($1)`, id)
		try = b.syncing(id)
		b.moves("true", `SELECT moves.end_job($1, $2, '{}')`, try.Run, try.ID)
		b.exec(`UPDATE connectors SET `+own+` WHERE id = $1`, id)
		b.moves("false", `SELECT moves.hurry_orphan_sweep()`)
	}
	b.moves("true", `SELECT moves.disable($1)`, id)
	b.moves("false", `SELECT moves.hurry_orphan_sweep()`)
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
