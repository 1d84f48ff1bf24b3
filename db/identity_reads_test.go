package db_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// A page of connectors does not read what thousands of other users have, no matter who asks.
func TestAPageOfConnectorsReadsWhatItsViewerSees(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id)
		SELECT 'c', CASE WHEN n % 1000 = 0 THEN 'word_count' ELSE 'web' END, 10 + n / 20, CASE WHEN n % 10 = 0 THEN 'group' ELSE 'user' END,
			CASE WHEN n % 10 = 0 THEN 'g' || n % 5000 END FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope) SELECT 'c', 'web', 9, 'org' FROM generate_series(1, 20)`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors`)
	const list = `SELECT * FROM api.connectors WHERE id > 0 ORDER BY id LIMIT 51`
	for name, c := range map[string]struct {
		who  identity.Who
		most int64
	}{
		"a user of few":       {identity.Who{UserID: 1500, Role: identity.User}, 200},
		"a user of none":      {identity.Who{UserID: 7, Role: identity.User}, 200},
		"a member of a group": {identity.Who{UserID: 1500, Role: identity.User, Groups: []string{"g10", "g20"}}, 300},
		"an administrator":    {identity.Who{UserID: 1500, Role: identity.Admin}, 3000},
		"a superadmin":        {identity.Who{UserID: 1, Role: identity.Superadmin}, 200},
	} {
		b.serves(c.who, func(tx pgx.Tx) {
			if n, plan := buffersOf(t, tx, list); n > c.most {
				t.Errorf("%s reads %d buffers, want at most %d:\n%s", name, n, c.most, plan)
			} else {
				t.Logf("%s reads %d buffers", name, n)
			}
			// A search asks for up to 10,000 sources; an administrator's walks over no jobs.
			most := int64(300)
			if c.who.Role == identity.Superadmin {
				most = 15_000
			}
			if n, plan := buffersOf(t, tx, `SELECT id, name, last_sync_at FROM api.sources WHERE id <= 2147483647 ORDER BY id LIMIT 10001`); n > most {
				t.Errorf("the sources that %s searches: %d buffers, want at most %d:\n%s", name, n, most, plan)
			} else {
				t.Logf("the sources that %s searches: %d buffers", name, n)
			}
			// A page of documents is looked for in up to 4,900 more connectors, here without any.
			for sql, most := range map[string]int64{
				`SELECT id FROM api.connectors WHERE id > 0 AND id <= 20000 AND (NULL::text IS NULL OR type = NULL) ORDER BY id LIMIT 4900`: 1500,
				`SELECT * FROM api.documents_of(ARRAY(SELECT n FROM generate_series(1, 4900) n), '', NULL, NULL, 51, 131072, 25000)`:        15_000,
			} {
				if n, plan := buffersOf(t, tx, sql); n > most {
					t.Errorf("the documents that %s lists: %d buffers, want at most %d:\n%s", name, n, most, plan)
				} else {
					t.Logf("the documents that %s lists: %d buffers", name, n)
				}
			}
		})
	}
}

// Nor does an administrator's, nor one of what is in flight, when nothing on it is theirs and the planner is mistaken: each looks at so many.
func TestALookForWhatSomebodySeesIsBounded(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 10 + n / 20 FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT gen_random_uuid(), c.id, c.user_id, c.type, 'manual', now(), now(), now(), 1 FROM connectors c`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, open_runs`)
	for _, role := range identity.Roles {
		for name, c := range map[string]struct {
			through, list string
			most          int64
		}{
			"connectors": {`SELECT api.connectors_through(0, 20000)::text`, `SELECT * FROM api.connectors WHERE id > 0 AND id <= $through::integer ORDER BY id LIMIT 51`, 1500},
			"open runs": {`SELECT api.open_runs_through('00000000-0000-0000-0000-000000000000', 5000)::text`,
				`SELECT * FROM api.runs WHERE status = 'running' AND id > '00000000-0000-0000-0000-000000000000' AND id <= $through::uuid ORDER BY id LIMIT 51`, 40000},
		} {
			b.serves(identity.Who{UserID: 7, Role: role}, func(tx pgx.Tx) {
				for _, sql := range []string{c.through, c.list} {
					var through string
					if err := tx.QueryRow(t.Context(), c.through).Scan(&through); err != nil {
						t.Fatal(err)
					}
					sql = strings.ReplaceAll(sql, "$through", "'"+through+"'")
					if n, plan := buffersOf(t, tx, sql); n > c.most {
						t.Errorf("%s by a %s reads %d buffers, want at most %d:\n%s", name, role, n, c.most, plan)
					} else {
						t.Logf("%s by a %s: %d buffers: %s", name, role, n, sql)
					}
				}
			})
		}
	}
}

// Of six connectors with 20,000 documents each those of the first five are read; one that has none is counted all the same. A page of them reads what is on it, also where the planner
// knows nothing of them yet, and one that finds nothing as many as it says.
func TestDocumentsAreCountedAndListedUpToANumber(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'x', 'web', 7 FROM generate_series(1, 7)`)
	b.exec(`INSERT INTO documents (connector_id, source_id, status, error, chunk_count, config_version)
		SELECT c.id, n, CASE n % 1000 WHEN 0 THEN 'failed' ELSE 'stored' END, CASE n % 1000 WHEN 0 THEN 'not a PDF' END, 1, c.config_version FROM connectors c, generate_series(1, 20000) n WHERE c.id < 7`)
	b.serves(identity.Who{UserID: 7, Role: identity.User}, func(tx pgx.Tx) {
		var counted string
		if err := tx.QueryRow(t.Context(), `SELECT string_agg(coalesce(failed::text, '?'), ' ' ORDER BY connector_id)
			FROM api.count_documents((SELECT array_agg(id ORDER BY id) FROM api.connectors), 1000000)`).Scan(&counted); err != nil || counted != "20 20 20 20 20 ? 0" {
			t.Errorf("%q, %v", counted, err)
		}
		if n, plan := buffersOf(t, tx, `SELECT * FROM api.count_documents((SELECT array_agg(id ORDER BY id) FROM api.connectors), 100000)`); n > 60_000 {
			t.Errorf("%d buffers:\n%s", n, plan)
		} else {
			t.Logf("%d buffers", n)
		}
		for asked, c := range map[string]struct {
			rows int
			end  string
			most int64
		}{
			`'', NULL, NULL, 50, 131072, 50000`:         {50, "1/10041", 150},
			`'5', NULL, NULL, 50, 131072, 50000`:        {50, "1/5043", 150},
			`'', NULL, NULL, 500, 100, 50000`:           {18, "1/10012", 150},
			`'', 'failed', NULL, 50, 131072, 50000`:     {50, "3/18000", 200},
			`'', 'failed', NULL, 500, 131072, 50000`:    {120, "", 500},
			`'19999', NULL, '2000', 50, 131072, 50000`:  {6, "4/10817", 20_000},
			`'', 'deleted', NULL, 50, 131072, 50000`:    {0, "3/18863", 20_000},
			`'', 'deleted', NULL, 50, 131072, 25000`:    {0, "2/14407", 10_000},
			`'', 'deleted', NULL, 50, 131072, 20000000`: {0, "", 50_000},
		} {
			of := `api.documents_of((SELECT array_agg(id ORDER BY id) FROM api.connectors), ` + asked + `)`
			var rows int
			var end string
			if err := tx.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE NOT is_end), coalesce(max(connector_id || '/' || source_id) FILTER (WHERE is_end), '') FROM `+of).Scan(&rows, &end); err != nil ||
				rows != c.rows || end != c.end {
				t.Errorf("%s: %d rows as far as %q, %v", asked, rows, end, err)
			}
			if n, plan := buffersOf(t, tx, `SELECT * FROM `+of); n > c.most {
				t.Errorf("%s: %d buffers, want at most %d:\n%s", asked, n, c.most, plan)
			} else {
				t.Logf("%s: %d buffers", asked, n)
			}
		}
	})
	b.serves(identity.Who{UserID: 8, Role: identity.User}, func(tx pgx.Tx) {
		var rows int
		if err := tx.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM api.count_documents(ARRAY[1, 2, 99], 100)) + (SELECT count(*) FROM api.documents_of(ARRAY[1, 2, 99], '', NULL, NULL, 50, 131072, 50000))`).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows, %v", rows, err)
		}
	})
}

// What a connector did before it was handed over is not read for its new owner.
func TestThePastOfAConnectorThatWasHandedOverIsNotRead(t *testing.T) {
	b := newBase(t)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), $1, 'web', 'manual', m.at, m.at, m.at, 'completed', c.config_version
		FROM connectors c, generate_series(1, 50000) n, LATERAL (SELECT clock_timestamp() - make_interval(mins => n) AS at) m`, id)
	b.exec(`INSERT INTO documents (connector_id, source_id, status, config_version) SELECT $1, n, 'stored', c.config_version FROM connectors c, generate_series(1, 100000) n`, id)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`UPDATE connectors SET user_id = 8`)
	b.exec(`VACUUM ANALYZE runs, documents`)
	b.serves(identity.Who{UserID: 8, Role: identity.User}, func(tx pgx.Tx) {
		for what, c := range map[string]struct {
			sql  string
			most int64
		}{
			"runs": {`SELECT * FROM api.runs WHERE connector_id = $id
				AND started_at >= (SELECT api.runs_reach($id, '-infinity', '9999-01-01', '00000000-0000-0000-0000-000000000000', NULL, NULL, NULL, 26))
				AND started_at <= '9999-01-01' AND (started_at, id) < ('9999-01-01', '00000000-0000-0000-0000-000000000000') ORDER BY started_at DESC, id DESC LIMIT 26`, 500},
			"why": {`SELECT status FROM api.runs WHERE connector_id = $id
				AND started_at >= (SELECT api.runs_reach($id, '-infinity', '9999-01-01', '00000000-0000-0000-0000-000000000000', NULL, NULL, NULL, 3)) ORDER BY started_at DESC, id LIMIT 3`, 500},
			"documents": {`SELECT * FROM api.documents_of(ARRAY[$id], '', NULL, NULL, 26, 131072, 50000)`, 15000},
		} {
			if n, plan := buffersOf(t, tx, strings.ReplaceAll(c.sql, "$id", fmt.Sprint(id))); n > c.most {
				t.Errorf("%s: %d buffers, want at most %d:\n%s", what, n, c.most, plan)
			} else {
				t.Logf("%s: %d buffers", what, n)
			}
		}
	})
}

// Who sees a connector is not asked for each of its runs, also where the planner knows nothing of them yet.
func TestAPageOfRunsThatNobodyHasCountedYetAsksForThoseOfThePage(t *testing.T) {
	b := newBase(t)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	b.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), $1, 'web', 'manual', m.at, m.at, m.at, CASE n WHEN 5000 THEN 'failed' ELSE 'completed' END, c.config_version
		FROM connectors c, generate_series(1, 10000) n, LATERAL (SELECT clock_timestamp() - make_interval(secs => n) AS at) m`, id)
	b.serves(identity.Who{UserID: 7, Role: identity.User}, func(tx pgx.Tx) {
		for _, verdict := range []string{"NULL", "'failed'", "'running'"} {
			n, plan := buffersOf(t, tx, strings.NewReplacer("$id", fmt.Sprint(id), "$verdict", verdict).Replace(`SELECT * FROM api.runs WHERE connector_id = $id
				AND started_at >= (SELECT api.runs_reach($id, '-infinity', '9999-01-01', '00000000-0000-0000-0000-000000000000', $verdict, NULL, NULL, 26))
				AND started_at <= '9999-01-01' AND (started_at, id) < ('9999-01-01', '00000000-0000-0000-0000-000000000000')
				AND ($verdict::text IS NULL OR status = $verdict) ORDER BY started_at DESC, id DESC LIMIT 26`))
			if n > 2000 {
				t.Errorf("%s: %d buffers, want at most 2000:\n%s", verdict, n, plan)
			}
		}
	})
}

// Nobody reads what others have to be shown their own: an administrator's locks, a user's limits and tokens.
func TestAPageReadsNothingOfOthers(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 10 + n / 20 FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO owner_quotas (user_id) SELECT n FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) SELECT n / 10 + 1, 'user', '{read}', sha256('s'), 'x' FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO resource_locks (key, epoch, run_id, connector_id, ttl, acquired_at, expires_at, try_id, ask)
		SELECT 'k' || n, n, gen_random_uuid(), n, '1 hour', clock_timestamp(), clock_timestamp() + interval '1 hour', gen_random_uuid(), 1 FROM generate_series(1, 20000) n`)
	b.exec(`INSERT INTO lock_waiters (key, run_id, connector_id, since, expires_at)
		SELECT 'w' || n, gen_random_uuid(), n, clock_timestamp(), clock_timestamp() + interval '1 hour' FROM generate_series(1, 20000) n`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, owner_quotas, access_tokens, resource_locks, lock_waiters`)
	b.serves(identity.Who{UserID: 7, Role: identity.Admin}, func(tx pgx.Tx) {
		for what, sql := range map[string]string{
			"keys":        `SELECT api.lock_keys('', 10)`,
			"keys behind": `SELECT api.lock_keys('l', 10)`,
			"locks":       `SELECT * FROM api.locks WHERE key = ANY (api.lock_keys('k2', 10)::text[]) ORDER BY key`,
			"limits":      `SELECT * FROM api.limits WHERE user_id > -1 AND ('{0,7}'::integer[] IS NULL OR user_id = ANY ('{0,7}'::integer[])) ORDER BY user_id LIMIT 51`,
			"tokens":      `SELECT * FROM api.tokens WHERE id > 0 AND (7 IS NULL OR user_id = 7) ORDER BY id LIMIT 51`,
		} {
			if n, plan := buffersOf(t, tx, sql); n > 600 {
				t.Errorf("%s: %d buffers, want at most 600:\n%s", what, n, plan)
			} else {
				t.Logf("%s: %d buffers", what, n)
			}
		}
	})
}

// buffersOf is what a statement that only reads has read, the lesser of two tries: when other databases of the cluster change their catalogues, a
// connection may have to read its own again.
func buffersOf(t *testing.T, tx pgx.Tx, sql string) (least int64, plan string) {
	t.Helper()
	least = math.MaxInt64
	for range 2 {
		var text string
		if err := tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		_, hit, _ := strings.Cut(text, `"Shared Hit Blocks": `)
		_, read, _ := strings.Cut(text, `"Shared Read Blocks": `)
		if n := leading(hit) + leading(read); n < least {
			least, plan = n, text
		}
	}
	return least, plan
}

func leading(text string) (n int64) {
	for _, r := range text {
		if r < '0' || r > '9' {
			return n
		}
		n = n*10 + int64(r-'0')
	}
	return n
}
