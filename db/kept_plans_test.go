//go:build !race

package db_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// What services/api reads by a key keeps its plan from a quiet hour, when its tables had few rows, and reads by the key when they have many.
func TestReadsThatKeepTheirPlansReadByTheirKeys(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`)
	b.exec(`INSERT INTO connectors (id, name, type, user_id) SELECT n, 'c', 'web', 7 FROM generate_series(200001, 200002) n`)
	b.exec(`INSERT INTO documents (connector_id, source_id, title, status, config_version) SELECT n, 'd', 'D', 'stored', 1 FROM generate_series(200001, 200060) n`)
	b.exec(`INSERT INTO users SELECT n, 'user' FROM generate_series(200001, 200060) n`)
	b.exec(`INSERT INTO group_members SELECT n, 'g', false FROM generate_series(200001, 200060) n`)
	b.exec(`INSERT INTO access_tokens (id, user_id, role, scopes, secret_sha256, created_by) OVERRIDING SYSTEM VALUE SELECT n, n, 'user', '{read}', sha256('x'), 'test' FROM generate_series(200001, 200060) n`)
	b.exec(`INSERT INTO run_after (connector_id, upstream_id, accepts) SELECT n, n + 1, 'completed' FROM generate_series(200001, 200060) n`)
	b.exec(`SET session_replication_role = 'origin'`)
	for _, table := range []string{"connectors", "connector_freshness", "connector_handovers", "connector_types", "documents", "document_counts", "open_runs", "access_tokens", "users", "group_members",
		"workers", "unmet_slots", "run_after", "lock_waiters", "resource_locks", "concurrency_limits"} {
		b.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
		b.exec(`ANALYZE ` + table)
	}
	week := one[string](b, `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'runs'::regclass ORDER BY 1 LIMIT 1`)
	b.exec(`ALTER TABLE ` + week + ` SET (autovacuum_enabled = false)`)
	who := identity.Who{UserID: 7, Role: identity.User, Groups: []string{"g1"}}
	const bounds = `'-infinity', '9999-01-01', '00000000-0000-0000-0000-000000000000', NULL, NULL, NULL`
	b.serves(who, func(tx pgx.Tx) {
		byKey(t, tx)
		for _, sql := range []string{
			`PREPARE evidence AS SELECT * FROM api.evidence WHERE id = $1`,
			`PREPARE glances AS SELECT * FROM api.evidence WHERE id = ANY ($1)`,
			`PREPARE before AS SELECT due_before, pending_before, unmet_at, key_most FROM api.evidence WHERE id = $1`,
			`PREPARE connector AS SELECT * FROM api.connectors WHERE id = $1`,
			`PREPARE names AS SELECT id, name FROM api.connectors WHERE id = ANY ($1::integer[])`,
			`PREPARE past AS SELECT * FROM api.runs WHERE connector_id = $1 AND started_at >= (SELECT api.runs_reach($1, ` + bounds + `, $2)) ORDER BY started_at DESC, id DESC LIMIT $2`,
			`PREPARE upstreams AS SELECT upstream_id, accepts, max_age_minutes, timeout_minutes FROM api.run_after WHERE connector_id = $1 ORDER BY upstream_id`,
			`PREPARE run AS SELECT * FROM api.runs WHERE id = $1`,
			`PREPARE numbers AS SELECT d.id, d.source_id FROM unnest($2::text[]) n(name) CROSS JOIN LATERAL (SELECT o.id, o.source_id FROM api.documents o WHERE o.connector_id = $1 AND o.source_id = n.name OFFSET 0) d`,
		} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatal(sql, err)
			}
		}
	})
	reads := map[string]int64{ // at most so many buffers
		`EXECUTE evidence (50007)`:                                                         100,
		`EXECUTE evidence (50008)`:                                                         100,
		`EXECUTE glances ('{50007,50008,50009}')`:                                          200,
		`EXECUTE before (50010)`:                                                           100,
		`EXECUTE connector (50007)`:                                                        20,
		`EXECUTE names ('{50007,50008,50009}')`:                                            40,
		`EXECUTE past (50007, 10)`:                                                         200,
		`EXECUTE run ('00000000-0000-0000-0000-000000000001')`:                             300,
		`EXECUTE numbers (50007, '{d1,d2,d3}')`:                                            40,
		`EXECUTE upstreams (50007)`:                                                        40,
		`SELECT * FROM api.documents_of('{50007}', '', NULL, NULL, 50, 1000000, 1000)`:     300,
		`SELECT * FROM api.documents_of('{50007}', '', 'failed', NULL, 50, 1000000, 1000)`: 300,
		`SELECT * FROM api.documents_of('{50007}', '', NULL, 'd77', 50, 1000000, 1000)`:    300,
		`SELECT api.sees_connector(50007)`:                                                 20,
		`SELECT * FROM api.seen_since(50007)`:                                              20,
		`SELECT api.runs_reach(50007, ` + bounds + `, 10)`:                                 50,
		`SELECT * FROM api.latest_runs('{50007,50008,50009}', 10)`:                         150,
		`SELECT * FROM api.latest_runs(ARRAY(SELECT generate_series(50007, 50057)), 10)`:   1500,
		`SELECT api.runs_back('2100-01-01', 100)`:                                          200,
		`SELECT api.runs_back_of(50007, '2100-01-01', 10)`:                                 100,
		`SELECT api.connectors_through(10, 100)`:                                           20,
		`SELECT api.open_runs_through('00000000-0000-0000-0000-0000000000ff', 100)`:        200,
		`SELECT api.is_of(50007, 7)`:                                                       30,
		`SELECT * FROM api.freshness_through('-infinity', 0, 100)`:                         20,
		`SELECT api.documents_through(50007, 'd5', 100)`:                                   40,
		`SELECT * FROM api.count_documents('{50007}', 100)`:                                40,
		`SELECT * FROM api.failed_documents(50007, 10)`:                                    6000, // of its 20,000 documents
		`SELECT * FROM api.authenticate(50007, sha256('50007'))`:                           60,
		`SELECT api.role_now(50007)`:                                                       30,
	}
	b.serves(who, func(tx pgx.Tx) {
		byKey(t, tx)
		for sql := range reads {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatal(sql, err)
			}
		}
	})
	other := connectTo(t, b.url)
	other.exec(`SET session_replication_role = 'replica'`) // triggers are not what is looked at; a session that says this plans all anew
	other.exec(`INSERT INTO connectors (id, name, type, user_id, scope, scope_id, last_sync_at, status)
		SELECT n, 'c', 'web', 7 + n % 5000, CASE WHEN n % 10 = 0 THEN 'group' ELSE 'user' END, CASE WHEN n % 10 = 0 THEN 'g' || n % 5000 END, now(), 'ACTIVE' FROM generate_series(1, 100000) n`)
	other.exec(`UPDATE connectors SET user_id = 7, scope = 'user', scope_id = NULL WHERE id BETWEEN 50007 AND 50009`)
	other.exec(`UPDATE connectors SET user_id = 7, scope = 'user', scope_id = NULL, type = 'file' WHERE id = 50010`)
	other.exec(`INSERT INTO connector_freshness SELECT id, type, last_sync_at + make_interval(mins => 52560000), api.webhook_place(type, user_id, scope, scope_id) FROM connectors WHERE id <= 100000`)
	other.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT gen_random_uuid(), n, 7 + n % 5000, 'file', 'schedule', now(), now(), now(), 1 FROM generate_series(1, 20000) n`)
	other.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), n, 'web', 'schedule', a.at, a.at, a.at, 'completed', 1 FROM generate_series(1, 100000) n, LATERAL (SELECT now() - n % 6000 * interval '1 second' AS at) a`)
	other.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 50007, 'web', 'schedule', a.at, a.at, a.at, 'completed', 1 FROM generate_series(1, 5000) n, LATERAL (SELECT now() - n * interval '1 second' AS at) a`)
	other.exec(`INSERT INTO run_after (connector_id, upstream_id, accepts) SELECT n, n + 1, 'completed' FROM generate_series(50000, 80000) n`)
	other.exec(`INSERT INTO workers SELECT gen_random_uuid(), now() + interval '1 hour' FROM generate_series(1, 20)`)
	other.exec(`UPDATE open_runs SET connector_id = 50008, type = 'web', picked_up_at = now(), try_id = gen_random_uuid(), worker_id = (SELECT id FROM workers LIMIT 1), has_locks = true WHERE connector_id = 7`)
	other.exec(`UPDATE connectors c SET run_id = r.id, status = 'SYNCING' FROM open_runs r WHERE c.id = 50008 AND r.connector_id = c.id`)
	other.exec(`INSERT INTO lock_waiters (key, run_id, connector_id, since, expires_at) SELECT 'l1', o.id, o.connector_id, now(), now() + interval '1 hour' FROM open_runs o ORDER BY o.connector_id`)
	other.exec(`INSERT INTO resource_locks SELECT 'l' || n, 1, gen_random_uuid(), 1, '1 hour', now(), now() + interval '1 hour', gen_random_uuid(), NULL, 1 FROM generate_series(1, 20000) n`)
	other.exec(`INSERT INTO unmet_slots SELECT n, 'web', 1, 'condition', now(), now(), 1, now(), now() FROM generate_series(1, 100000) n`)
	other.exec(`INSERT INTO concurrency_limits SELECT 'k' || n, 1 FROM generate_series(1, 20000) n`)
	other.exec(`INSERT INTO documents (connector_id, source_id, title, status, config_version) SELECT 50007, 'd' || n, 'D', 'stored', 1 FROM generate_series(1, 20000) n`)
	other.exec(`INSERT INTO document_counts (connector_id, config_version, documents, bytes) SELECT n, 1, 20000, 0 FROM generate_series(1, 100000) n`)
	other.exec(`INSERT INTO users SELECT n, 'user' FROM generate_series(1, 100000) n`)
	other.exec(`INSERT INTO group_members SELECT n, 'g' || n % 5000, false FROM generate_series(1, 100000) n`)
	other.exec(`INSERT INTO access_tokens (id, user_id, role, scopes, secret_sha256, created_by, last_used_at) OVERRIDING SYSTEM VALUE
		SELECT n, n, 'user', '{read}', sha256(n::text::bytea), 'test', now() FROM generate_series(1, 100000) n`)
	b.serves(who, func(tx pgx.Tx) {
		byKey(t, tx)
		for sql, most := range reads {
			n, plan := buffersOf(t, tx, sql)
			t.Logf("%d buffers: %s", n, sql)
			if n > most {
				t.Errorf("%s reads %d buffers, want at most %d:\n%s", sql, n, most, plan)
			}
		}
	})
}

// byKey plans as reads of the API do that keep their plans.
func byKey(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`); err != nil {
		t.Fatal(err)
	}
}

// A kept plan knows how many documents connectors have on average. One that has many more than others is walked by its index, as far as the function looks, and not read and sorted.
func TestFailedDocumentsOfALargeConnectorAreNotSortedWhereOthersAreSmall(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // triggers are not what is looked at
	b.exec(`INSERT INTO connectors (id, name, type, user_id, scope, status) SELECT n, 'c', 'web', 7, 'user', 'ACTIVE' FROM generate_series(1, 120) n`)
	b.exec(`INSERT INTO documents (connector_id, source_id, title, status, config_version)
		SELECT d.connector, 'https://example.org/documents/d' || d.n, 'D', 'stored', 1 FROM (SELECT c.connector, n FROM generate_series(1, 120) c(connector),
			generate_series(1, CASE WHEN connector = 77 THEN 20000 ELSE 120 END) n ORDER BY sha256((c.connector || ' ' || n)::bytea)) d`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`ANALYZE documents`)
	b.serves(identity.Who{UserID: 7, Role: identity.User}, func(tx pgx.Tx) {
		if _, err := tx.Exec(t.Context(), `SET LOCAL work_mem = '64kB'`); err != nil { // what is sorted is written to disk
			t.Fatal(err)
		}
		_, plan := buffersOf(t, tx, `SELECT * FROM api.failed_documents(77, 10)`)
		if _, written, _ := strings.Cut(plan, `"Temp Written Blocks": `); leading(written) > 0 {
			t.Errorf("it sorts the documents of a connector, and writes %d blocks to disk for that", leading(written))
		}
	})
}

// A page of a queue asks it for each of its connectors.
func TestHowManyAreBeingFetchedIsCountedUpToAThousand(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // triggers are not what is looked at
	b.exec(`INSERT INTO connectors (id, name, type, user_id, scope, status) SELECT n, 'c', 'web', 7, 'user', 'ACTIVE' FROM generate_series(1, 10) n`)
	b.exec(`INSERT INTO workers SELECT gen_random_uuid(), now() + n * interval '1 hour' FROM generate_series(-5, 1) n`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version, picked_up_at, try_id, worker_id)
		SELECT gen_random_uuid(), n, 7, CASE WHEN n <= 15000 THEN 'web' WHEN n <= 15003 THEN 'file' ELSE 'teams' END, 'schedule', now(), now(), now(), 1, now(), gen_random_uuid(), w.id
		FROM generate_series(1, 20000) n JOIN (SELECT id, row_number() OVER (ORDER BY expires_at DESC) AS place FROM workers) w ON w.place = CASE WHEN n <= 15003 THEN 1 ELSE 2 END`)
	b.exec(`UPDATE connectors SET type = CASE id WHEN 1 THEN 'web' WHEN 2 THEN 'file' ELSE 'teams' END`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.serves(identity.Who{UserID: 7, Role: identity.User}, func(tx pgx.Tx) {
		byKey(t, tx)
		for id, want := range []int64{1: 1000, 2: 3, 3: 0} {
			var got int64
			if err := tx.QueryRow(t.Context(), `SELECT coalesce(max(fetching), 0) FROM api.evidence WHERE id = $1`, id).Scan(&got); err != nil || got != want {
				t.Errorf("connector %d: %d are being fetched, want %d: %v", id, got, want, err)
			}
		}
		if n, plan := buffersOf(t, tx, `SELECT fetching FROM api.evidence WHERE id = 1`); n > 1200 {
			t.Errorf("it reads %d buffers:\n%s", n, plan)
		}
	})
}
