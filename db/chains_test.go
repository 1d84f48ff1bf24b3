package db_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// manual are connectors of user 1 that nothing runs but a trigger.
func (b *base) manual(n int) []int32 {
	b.Helper()
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('docs', 'web', 1) RETURNING id`)
	}
	return ids
}

const runAfter = `INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`

func TestACycleIsRefusedWithItsConnectors(t *testing.T) {
	b := newBase(t)
	ids := b.manual(3)
	b.exec(runAfter, ids[1], ids[0])
	b.exec(runAfter, ids[2], ids[1])
	_, err := b.conn.Exec(t.Context(), runAfter, ids[0], ids[2])
	want := one[string](b, `SELECT format('%s after %s after %s after %s', $1::int, $3::int, $2::int, $1::int)`, ids[0], ids[1], ids[2])
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = b.conn.Exec(t.Context(), `INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, 1000000)`, ids[0])
	if err == nil || !strings.Contains(err.Error(), "upstream_id is 1000000, which does not exist") {
		t.Errorf("%v", err)
	}
}

func TestTwoWritersDoNotCloseHalfOfACycleEach(t *testing.T) {
	b := newBase(t)
	ids := b.manual(2)
	other, err := pgx.ConnectConfig(t.Context(), b.conn.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(t.Context()) }()
	tx, err := b.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), runAfter, ids[0], ids[1]); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, err := other.Exec(t.Context(), runAfter, ids[1], ids[0])
		refused <- err
	}()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "would run after itself") {
		t.Errorf("%v, want a refusal", err)
	}
	stricter, err := b.conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stricter.Rollback(t.Context()) }()
	if _, err := stricter.Exec(t.Context(), runAfter, ids[1], ids[0]); err == nil || !strings.Contains(err.Error(), "read committed") {
		t.Errorf("%v, want a refusal of what might not see the other", err)
	}
}

func TestAnUpstreamIsNotDeletedAndADownstreamLeavesItsChain(t *testing.T) {
	b := newBase(t)
	ids := b.manual(2)
	b.exec(runAfter, ids[1], ids[0])
	b.holds(ids[1], `c.chained AND c.asks_upstreams AND c.due_reason = 'upstream' AND c.due_at IS NULL`)
	if _, err := b.conn.Exec(t.Context(), `DELETE FROM connectors WHERE id = $1`, ids[0]); err == nil || !strings.Contains(err.Error(), "runs after it") {
		t.Errorf("%v, want a refusal", err)
	}
	b.exec(`DELETE FROM run_after`)
	b.holds(ids[1], `NOT c.chained AND c.next_sync_at IS NULL AND c.due_reason IS NULL`)
	b.exec(runAfter, ids[1], ids[0])
	b.exec(`DELETE FROM connectors WHERE id = $1`, ids[1])
	b.exec(`DELETE FROM connectors WHERE id = $1`, ids[0])
	if n := one[int](b, `SELECT (SELECT count(*) FROM run_after) + (SELECT count(*) FROM chains) + (SELECT count(*) FROM upstreams)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
