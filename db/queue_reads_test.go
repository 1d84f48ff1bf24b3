//go:build !race

package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// Of 40,000 that are due and 40,000 that wait for a worker a page of the queue looks at 2,000, also where its viewer sees none of them.
func TestAPageOfTheQueueLooksAtSoMany(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id, next_sync_at, due_reason) SELECT 'c', 'web', 10 + n / 20, now() - n * interval '1 second', 'schedule' FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT gen_random_uuid(), c.id, c.user_id, 'file', 'manual', now(), now(), now() - c.id * interval '1 second', 1 FROM connectors c`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, open_runs`)
	for name, who := range map[string]identity.Who{"a user of none": {UserID: 7, Role: identity.User}, "a user of few": {UserID: 1500, Role: identity.User}, "a superadmin": {UserID: 1, Role: identity.Superadmin}} {
		for place, after := range map[string]string{"the first": "'0001-01-01Z', 0", "one in the middle": "now() - interval '20000 seconds', 0"} {
			b.serves(who, func(tx pgx.Tx) {
				n, plan := buffersOf(t, tx, `SELECT * FROM api.waiting(`+after+`, 25, 2000)`)
				t.Logf("%s page of %s reads %d buffers", place, name, n)
				if n > 25_000 {
					t.Errorf("%s page of %s reads %d buffers:\n%s", place, name, n, plan)
				}
			})
		}
	}
}

// Of 40,000 that wait for a worker a bounded part is counted for each of the 25 on a page of the queue.
func TestWhatAPageOfTheQueueSaysOfEachIsBounded(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`)
	b.exec(`INSERT INTO connectors (name, type, user_id, status, run_id) SELECT 'c', 'web', 10 + n / 50, 'PENDING', gen_random_uuid() FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT c.run_id, c.id, c.user_id, 'web', 'manual', now(), now(), now() - interval '1 hour' + c.id * interval '1 millisecond', 1 FROM connectors c`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, open_runs`)
	b.serves(identity.Who{UserID: 10, Role: identity.User}, func(tx pgx.Tx) {
		n, plan := buffersOf(t, tx, `SELECT e.* FROM generate_series(10, 34) i(id) CROSS JOIN LATERAL (SELECT * FROM api.evidence v WHERE v.id = i.id OFFSET 0) e`)
		t.Logf("25 on a page read %d buffers", n)
		if n > 25_000 {
			t.Errorf("25 on a page read %d buffers:\n%s", n, plan)
		}
	})
}
