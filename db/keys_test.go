package db_test

import (
	"testing"
)

func TestAChangeOfKeysIsInTheAuditAndAWaitIsNot(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`UPDATE connectors SET concurrency_keys = ARRAY['a', 'b'] WHERE id = $1`, id)
	b.moves("1", `SELECT moves.park(ARRAY[$1::int], ARRAY['a'])`, id)
	b.holds(id, `c.waits_for_key = 'a' AND c.due_at IS NULL AND EXISTS (SELECT FROM key_waiters WHERE connector_id = c.id)`)
	before := one[int](b, `SELECT count(*) FROM audit`)
	b.moves("1", `SELECT moves.unpark(ARRAY[$1::int])`, id)
	b.moves("0", `SELECT moves.unpark(ARRAY[$1::int])`, id)
	b.holds(id, `c.waits_for_key IS NULL AND c.due_at IS NOT NULL AND NOT EXISTS (SELECT FROM key_waiters)`)
	if after := one[int](b, `SELECT count(*) FROM audit`); after != before {
		t.Errorf("a wait is %d times in the audit", after-before)
	}
	if n := one[int](b, `SELECT count(*) FROM audit WHERE action = 'connectors.update' AND after -> 'concurrency_keys' = '["a", "b"]'`); n != 1 {
		t.Errorf("the keys are %d times in the audit", n)
	}
	b.moves("1", `SELECT moves.park(ARRAY[$1::int], ARRAY['a'])`, id)
	b.exec(`UPDATE connectors SET name = 'renamed' WHERE id = $1`, id)
	b.holds(id, `c.waits_for_key IS NULL AND NOT EXISTS (SELECT FROM key_waiters)`)
	if n := one[int](b, `SELECT count(*) FROM audit WHERE after::text LIKE '%waits_for_key%' OR before::text LIKE '%waits_for_key%'`); n != 0 {
		t.Errorf("what only moves write is %d times in the audit", n)
	}
}

func TestWhatIsTruncatedHoldsNoPlaceAndWaitsForNone(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.moves("1", `SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', gen_random_uuid(), 'keys', ARRAY['a'])), clock_timestamp())`, id)
	b.moves("1", `SELECT moves.park(ARRAY[$1::int], ARRAY['a'])`, b.connector())
	b.moves("1", `SELECT count(*) FROM key_places`)
	b.exec(`TRUNCATE open_runs, connectors CASCADE`)
	b.moves("0", `SELECT (SELECT count(*) FROM key_places) + (SELECT count(*) FROM key_waiters)`)
}

func TestWhoOpensAURLStandsInNoKey(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	const key = "https://joe:secret@host/x"
	b.refused("connectors_keys_form", `UPDATE connectors SET concurrency_keys = ARRAY['a', $2, 'b'] WHERE id = $1`, id, key)
	b.refused("connector_types_keys_form", `UPDATE connector_types SET concurrency_keys = ARRAY[$1] WHERE name = 'web'`, key)
	b.refused("concurrency_limits_key_form", `INSERT INTO concurrency_limits (key, most) VALUES ($1, 1)`, key)
	b.exec(`UPDATE connectors SET concurrency_keys = ARRAY['https://host', 'joe@host'] WHERE id = $1`, id)
}

func TestALimitSaysWhoWroteItWhateverWritesIt(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO concurrency_limits (key, most, created_by, updated_by) VALUES ('a', 1, 'joe', 'joe')`)
	b.exec(`UPDATE concurrency_limits SET most = 2`)
	b.moves("true", `SELECT updated_by = 'login ' || session_user AND created_by = 'joe' FROM concurrency_limits`)
	b.exec(`UPDATE concurrency_limits SET most = 3, updated_by = 'jane'`)
	b.moves("true", `SELECT updated_by = 'jane' FROM concurrency_limits`)
	b.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('b', 1)`)
	b.moves("true", `SELECT updated_by = 'login ' || session_user AND created_by = updated_by FROM concurrency_limits WHERE key = 'b'`)
}

func TestAWaitWakesTheSchedulerWhenItEndsByHandAndWhenAPlaceIsLeft(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`UPDATE connectors SET concurrency_keys = ARRAY['a'] WHERE id = $1`, id)
	b.moves("1", `SELECT moves.park(ARRAY[$1::int], ARRAY['a'])`, id)
	if n := b.notified(`UPDATE connectors SET concurrency_keys = NULL WHERE id = $1`, id); n == 0 {
		t.Error("nobody is told of who is due again")
	}
	if n := b.notified(`INSERT INTO concurrency_limits (key, most) VALUES ('a', 1)`); n != 1 {
		t.Errorf("a limit is told of %d times", n)
	}
	b.refused("concurrency_limits_key_stays", `UPDATE concurrency_limits SET key = 'b'`)
	b.refused("connectors_moved_only", `UPDATE connectors SET waits_for_key = 'a' WHERE id = $1`, id)
}
