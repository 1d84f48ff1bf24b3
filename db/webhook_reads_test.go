//go:build !race

package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Statistics are of a time when only what everybody sees was not well. Since then 30,000 of others are not, and the owner is in 50 groups: their places are looked up, and not all that is not well for each.
func TestALookForAWebhookReadsNothingThatOthersSee(t *testing.T) {
	b := newBase(t)
	b.exec(`ALTER TABLE webhook_faults SET (autovacuum_enabled = off)`)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO webhooks (id, user_id, role, url, events, secret, created_by) VALUES (1, 7, 'user', 'https://example.com/', '{failed}', 'enc:v1:k:abc', 'x')`)
	b.exec(`INSERT INTO webhook_turns (webhook_id, look_at) VALUES (1, now())`)
	b.exec(`INSERT INTO group_members SELECT 7, 'team-' || n, false FROM generate_series(1, 50) n`)
	b.exec(`INSERT INTO webhook_faults (connector_id, place) SELECT n, 'org' FROM generate_series(1, 500) n`)
	b.exec(`ANALYZE webhook_faults`)
	b.exec(`INSERT INTO webhook_faults (connector_id, place) SELECT 500 + n, 'user:' || 100 + n % 1000 FROM generate_series(1, 30000) n`)
	b.exec(`SET session_replication_role = 'origin'`)
	tx, err := b.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if n := looked(t, tx); n > 800 {
		t.Errorf("it reads %d buffers, want at most 800", n)
	} else {
		t.Logf("%d buffers", n)
	}
}

// looked is how many buffers one look for webhook 1 reads, once its functions are planned.
func looked(t *testing.T, tx pgx.Tx) (n int64) {
	t.Helper()
	for range 2 {
		if _, err := tx.Exec(t.Context(), `UPDATE webhook_turns SET look_at = clock_timestamp() - interval '1 second', after_state = 0, after_fault = 0`); err != nil {
			t.Fatal(err)
		}
		n, _ = buffersOf(t, tx, `SELECT * FROM api.look_webhook(1, '15 minutes', 100)`)
	}
	return n
}
