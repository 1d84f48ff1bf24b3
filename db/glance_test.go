package db_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// A page of sources: what it reads is bounded for each of its rows, however many are due, in flight, or in the ledger.
func TestALookAtAPageOfConnectorsReadsABoundedPartForEach(t *testing.T) {
	b := newBase(t)
	all := 30_000
	if _, err := fmt.Sscan(os.Getenv("GLANCE_CONNECTORS"), &all); err == nil {
		t.Logf("%d connectors", all)
	}
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(fmt.Sprintf(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, next_sync_at, due_reason) SELECT 'source ' || n, 'web', 10 + n / 20, 60, clock_timestamp() - interval '1 hour', 'schedule'
		FROM generate_series(1, %d) n`, all))
	b.exec(fmt.Sprintf(`INSERT INTO open_runs (id, connector_id, type, user_id, trigger, due_at, started_at, config_version, dispatched_at)
		SELECT gen_random_uuid(), c.id, c.type, c.user_id, 'manual', clock_timestamp(), clock_timestamp(), c.config_version, clock_timestamp() FROM connectors c WHERE c.id > %d`, all/2))
	b.exec(`UPDATE connectors c SET status = 'PENDING', run_id = o.id, next_sync_at = NULL, due_reason = NULL FROM open_runs o WHERE o.connector_id = c.id`)
	b.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), c.id, c.type, 'schedule', at, at, at, 'completed', c.config_version FROM connectors c, generate_series(1, 40) n, LATERAL (SELECT clock_timestamp() - n * interval '1 hour' AS at) a
		WHERE c.id % 40 = 0 OR c.id <= 50`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, open_runs, runs`)
	for _, who := range []identity.Who{{UserID: 11, Role: identity.User}, {UserID: 1, Role: identity.Superadmin}} {
		b.serves(who, func(tx pgx.Tx) {
			ids := `ARRAY(SELECT generate_series(10, 34))`
			for what, bound := range map[string]struct {
				sql  string
				most int64
			}{
				"where they stand":  {`SELECT id, status, run_id, lease_expires_at, lock_key, has_other_owners, publish_error, type_publish_error, unmet_at FROM api.evidence WHERE id = ANY (` + ids + `)`, 1000},
				"their latest runs": {`SELECT * FROM api.latest_runs(` + ids + `, 30)`, 1500},
				"by a name":         {`SELECT * FROM api.connectors WHERE id > 0 AND id <= 20000 AND strpos(lower(name), 'nowhere') > 0 ORDER BY id LIMIT 26`, 2000},
			} {
				if n, plan := buffersOf(t, tx, bound.sql); n > bound.most {
					t.Errorf("%s: %d buffers for %s, want at most %d:\n%s", what, n, who.Role, bound.most, plan)
				} else {
					t.Logf("%s: %d buffers for %s", what, n, who.Role)
				}
			}
		})
	}
}
