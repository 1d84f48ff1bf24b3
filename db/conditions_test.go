package db_test

import (
	"testing"

	"github.com/echomind/sync/sdk/lifecycle"
)

// job is an hourly job of user 1 that asks a condition.
func (b *base) job() int32 {
	b.Helper()
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('refresh', 'job') ON CONFLICT DO NOTHING`)
	b.exec(`INSERT INTO conditions (name, query) VALUES ('never', 'SELECT false') ON CONFLICT DO NOTHING`)
	return one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, condition) VALUES ('docs', 'refresh', 1, 60, 'never') RETURNING id`)
}

func TestAJobThatIsToBeAskedIsInNoClaimUntilItIsAnswered(t *testing.T) {
	b := newBase(t)
	id := b.job()
	b.holds(id, `c.asks_condition AND c.due_reason = 'new'`)
	if n := one[int](b, `SELECT count(*) FROM moves.lock_due('refresh', 0, 10) c`); n != 0 {
		t.Error("it is locked for a claim")
	}
	if n := one[int](b, `SELECT count(*) FROM moves.lock_due('refresh', 5, 10) c`); n != 0 {
		t.Error("it is locked for a claim under a cap")
	}
	b.moves("1", `SELECT moves.note_met(ARRAY[$1::int])`, id)
	b.moves("0", `SELECT moves.note_met(ARRAY[$1::int])`, id)
	b.holds(id, `NOT c.asks_condition AND c.condition_met_at IS NOT NULL`)
	if n := one[int](b, `SELECT count(*) FROM moves.lock_due('refresh', 5, 10) c`); n != 1 {
		t.Error("it is not locked for a claim")
	}
	try := b.syncing(id)
	b.holds(id, `NOT c.asks_condition AND c.condition_met_at IS NULL`)
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
	b.holds(id, `NOT c.asks_condition AND c.due_reason = 'retry'`)
	try = b.syncing(id)
	b.moves("true", `SELECT moves.end_job($1, $2, '{}')`, try.Run, try.ID)
	b.holds(id, `c.asks_condition AND c.due_reason = 'schedule'`)
	b.moves("true", `SELECT moves.disable($1)`, id)
	b.holds(id, `NOT c.asks_condition`)
}

func TestWhatChangesAJobTakesItsAnswerBack(t *testing.T) {
	b := newBase(t)
	for _, change := range []string{`config = '{"a": 1}'`, `refresh_freq_minutes = 30`, `refresh_freq_minutes = NULL, schedule_cron = '* * * * *'`, `condition = 'other'`} {
		id := b.job()
		b.exec(`INSERT INTO conditions (name, query) VALUES ('other', 'SELECT true') ON CONFLICT DO NOTHING`)
		b.moves("1", `SELECT moves.note_met(ARRAY[$1::int])`, id)
		b.exec(`UPDATE connectors SET `+change+` WHERE id = $1`, id)
		b.holds(id, `c.condition_met_at IS NULL`)
	}
	id := b.job()
	if n := b.notified(`SELECT moves.trigger_sync($1)`, id); n != 1 {
		t.Errorf("%d are told that it runs without being asked", n)
	}
	b.holds(id, `NOT c.asks_condition`)
	id = b.job()
	if n := b.notified(`UPDATE connectors SET condition = NULL WHERE id = $1`, id); n != 1 {
		t.Errorf("%d are told that it asks nothing any more", n)
	}
}

func TestASourceAndAnotherUsersJobHaveNoCondition(t *testing.T) {
	b := newBase(t)
	id := b.job()
	b.exec(`UPDATE conditions SET user_ids = '{1}'`)
	b.refused("connectors_condition_allowed", `UPDATE connectors SET condition = 'never' WHERE id = $1`, b.connector())
	b.refused("connectors_condition_allowed", `UPDATE connectors SET user_id = 2 WHERE id = $1`, id)
	b.refused("connectors_condition_known", `UPDATE connectors SET condition = 'none' WHERE id = $1`, id)
	b.refused("connectors_condition_known", `DELETE FROM conditions`)
}

func TestOnlyAnAdministratorWritesConditionsAndNothingElse(t *testing.T) {
	b := newBase(t)
	b.job()
	writes := map[string]string{
		"add": `INSERT INTO conditions (name, query) VALUES ('x', 'SELECT true')`, "change": `UPDATE conditions SET query = 'SELECT true'`,
		"remove": `DELETE FROM conditions WHERE name = 'x'`,
	}
	for what, sql := range writes {
		for _, role := range append([]string{"conditions"}, roles...) {
			if b.tries(role, sql) {
				t.Errorf("%s may %s a condition", role, what)
			}
		}
		if !b.tries("administrator", sql) {
			t.Errorf("an administrator may not %s a condition", what)
		}
	}
	tables := b.tables()
	for table, columns := range tables {
		want := map[string]string{"blackouts": "riud", "blackout_windows": "r", "calendars": "riud", "concurrency_limits": "riud", "conditions": "riud", "connector_types": "iu*", "goose_db_version": "r"}[table]
		if cell := b.cell("administrator", table, columns); cell != want {
			t.Errorf("an administrator may %q with %s, want %q", cell, table, want)
		}
		if cell := b.cell("conditions", table, columns); cell != "" {
			t.Errorf("a condition may %q with %s", cell, table)
		}
	}
	for _, role := range append([]string{"administrator", "scheduler"}, roles...) {
		want := role == "administrator" || role == "scheduler"
		if may := b.tries(role, `SELECT condition_queries.never('{}')`); may != want {
			t.Errorf("%s asks a condition: %v, want %v", role, may, want)
		}
	}
	for name, call := range b.functions() {
		for _, role := range []string{"administrator", "conditions"} {
			if b.tries(role, call) {
				t.Errorf("%s calls moves.%s", role, name)
			}
		}
	}
}

// An index has asks_condition: where it changes, a move writes each index of the table.
func TestAConnectorWithoutAConditionNeverChangesWhatTheIndexesOfClaimsAskFor(t *testing.T) {
	b := newBase(t)
	b.exec(`CREATE TABLE seen (asks boolean);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO seen VALUES (NEW.asks_condition); RETURN NEW; END';
		CREATE TRIGGER note AFTER INSERT OR UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION note()`)
	for _, status := range lifecycle.Statuses {
		b.in(string(status))
	}
	if n := one[int](b, `SELECT count(*) FROM seen WHERE asks`); n != 0 {
		t.Errorf("%d rows would have asked", n)
	}
	if n := one[int](b, `SELECT count(*) FROM seen`); n < 10 {
		t.Errorf("%d changes were seen", n)
	}
}
