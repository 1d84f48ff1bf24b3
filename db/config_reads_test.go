package db_test

import "testing"

// wide is a configuration that Postgres cannot compress, and keeps out of the row.
const wide = `(SELECT jsonb_object_agg(n, gen_random_uuid()) FROM generate_series(1, 1000) n)`

// read is how often what is stored outside the rows of connectors was read in this transaction.
const read = `SELECT coalesce(pg_stat_get_xact_numscans(i.indexrelid), 0) FROM pg_class c
	JOIN pg_index i ON i.indrelid = c.reltoastrelid WHERE c.oid = 'connectors'::regclass`

func TestAMoveDoesNotLookAtTheBoundsOfAConfiguration(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`UPDATE connectors SET refresh_freq_minutes = 1, config = `+wide+` WHERE id = $1`, id)
	for _, move := range []struct {
		name string
		most int64
		sql  string
	}{
		{"claim", 0, `SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::integer, 'run_id', gen_random_uuid())), now())`},
		{"pick_up", 0, `SELECT moves.pick_up(id, run_id, '00000000-0000-0000-0000-00000000000a') FROM connectors WHERE id = $1`},
		{"fail", 1, `SELECT moves.fail(run_id, '00000000-0000-0000-0000-00000000000a', 'transient', 'no') FROM connectors WHERE id = $1`},
	} {
		b.exec(`BEGIN`)
		before := one[int64](b, read)
		// A move that hands the row from function to function has it read once; a bound that is looked at would be looked at in each.
		b.exec(move.sql, id)
		if n := one[int64](b, read) - before; n > move.most {
			t.Errorf("%s read the configuration %d times", move.name, n)
		}
		b.exec(`COMMIT`)
	}
	b.holds(id, `c.status = 'ERROR'`)
}

func TestAConfigurationIsComparedInsteadOfWrittenOutWhereItsUserAsksForASync(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`SET track_functions = 'all'`)
	b.exec(`BEGIN`)
	b.exec(`UPDATE connectors SET trigger_requested_at = now() WHERE id = $1`, id)
	if n := one[int](b, `SELECT coalesce(sum(calls), 0)::integer FROM pg_stat_xact_user_functions WHERE funcname = 'connector_resealed'`); n > 0 {
		t.Errorf("both rows were written out whole %d times", n)
	}
	b.exec(`COMMIT`)
}

func TestWhoeverWritesAConfigurationIsRefusedWhatIsOutOfBounds(t *testing.T) {
	b := newBase(t)
	for name, config := range map[string]string{
		"connectors_config_object": `'[]'`,
		"connectors_config_size":   `jsonb_build_object('a', repeat('x', 65536))`,
		"connectors_config_depth":  `(repeat('{"a":', 31) || '1' || repeat('}', 31))::jsonb`,
	} {
		b.refused(name, `INSERT INTO connectors (name, type, user_id, config) VALUES ('docs', 'web', 1, `+config+`)`)
		id := b.connector()
		b.refused(name, `INSERT INTO connectors (id, name, type, user_id) VALUES (`+`$1, 'docs', 'web', 1)
			ON CONFLICT (id) DO UPDATE SET config = `+config, id)
		b.exec(`BEGIN; SET LOCAL echomind.moving = 'on'`)
		b.refused(name, `UPDATE connectors SET config = `+config+` WHERE id = $1`, id)
		b.exec(`ROLLBACK`)
	}
}
