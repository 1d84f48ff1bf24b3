package db_test

import (
	"strings"
	"testing"
)

// saysHowMany is what a superadmin is told of how many connectors there are, and how many of its pages were read for it.
func (b *base) saysHowMany() (said string, read int64) {
	b.Helper()
	b.exec(`BEGIN`)
	b.exec(`SELECT set_config('echomind.request', '{"user_id": 1, "role": "superadmin"}', true)`)
	before := one[int64](b, `SELECT pg_stat_get_xact_blocks_fetched('connectors'::regclass)`)
	said = one[string](b, `SELECT coalesce(string_agg(format('%s %s %s', c.type, c.status, CASE WHEN c.is_estimate THEN 'about ' ELSE '' END || c.connectors), ', ' ORDER BY c.type, c.status), '') FROM api.count_connectors() c`)
	read = one[int64](b, `SELECT pg_stat_get_xact_blocks_fetched('connectors'::regclass)`) - before
	b.exec(`ROLLBACK`)
	return said, read
}

// An outage is over, and the statistics say that every connector is at fault.
func TestHowManyConnectorsThereAreIsToldFromABoundedNumberOfPagesThoughStatisticsAreOfAnOutage(t *testing.T) {
	b := newBase(t)
	b.exec(`ALTER TABLE connectors DISABLE TRIGGER USER`)
	b.exec(`INSERT INTO connectors (name, type, user_id, config) SELECT 'x', 'web', 1, jsonb_build_object('u', repeat('x', 1500)) FROM generate_series(1, 20000) n`)
	b.exec(`UPDATE connectors SET status = 'ERROR', next_sync_at = NULL, due_reason = NULL WHERE type = 'web'`)
	b.exec(`VACUUM ANALYZE connectors`)
	b.exec(`UPDATE connectors SET status = 'ACTIVE', next_sync_at = clock_timestamp(), due_reason = 'schedule' WHERE type = 'web'`)
	b.exec(`VACUUM connectors`)
	if said, read := b.saysHowMany(); read > 5000 {
		t.Errorf("%d pages of %d are read: %s", read, one[int64](b, `SELECT pg_relation_size('connectors') / 8192`), said)
	}
}

func TestEachTypeIsToldOfInALargeTableAndFewConnectorsAreCountedOneByOne(t *testing.T) {
	b := newBase(t)
	b.exec(`ALTER TABLE connectors DISABLE TRIGGER USER`)
	b.exec(`INSERT INTO connectors (name, type, user_id, next_sync_at, due_reason, config) SELECT 'x', CASE WHEN n % 20000 = 7 THEN 'file' WHEN n = 9 THEN 'teams' ELSE 'web' END, 1,
		CASE WHEN n <> 9 THEN clock_timestamp() END, CASE WHEN n <> 9 THEN 'schedule' END, jsonb_build_object('u', repeat('x', 500)) FROM generate_series(1, 60000) n`)
	for range 5 { // each has a sample of its own
		said, _ := b.saysHowMany()
		for _, says := range []string{"file ACTIVE about 3", "teams ACTIVE about ", "web ACTIVE about "} {
			if !strings.Contains(said, says) {
				t.Errorf("want %q in: %s", says, said)
			}
		}
	}
	b.exec(`DELETE FROM connectors WHERE id NOT IN (SELECT max(id) - n FROM connectors, generate_series(0, 2) n GROUP BY n) OR type <> 'web'`)
	if said, _ := b.saysHowMany(); said != "web ACTIVE 3" {
		t.Errorf("three are left of 60000, and it says: %s", said)
	}
	b.exec(`DELETE FROM connectors`)
	if said, _ := b.saysHowMany(); said != "" {
		t.Errorf("none is left, and it says: %s", said)
	}
}
