//go:build !race

package db_test

import (
	"testing"

	"github.com/echomind/sync/db"
)

func TestConnectorsOfBeforeTheMigrationHaveTheirPlaceByFreshness(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, fresh_within_minutes) SELECT 'c', 'web', 7, CASE WHEN n % 2 = 0 THEN 60 END FROM generate_series(1, 2500) n`)
	b.before(29)
	if n := one[int](b, `SELECT count(*) FROM connector_freshness`); n != 1250 {
		t.Errorf("%d say how old they may be", n)
	}
	if err := db.Up(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
	if n := one[int](b, `SELECT count(*) FROM connector_freshness f JOIN connectors c ON c.id = f.connector_id
		WHERE f.fresh_until = c.created_at + make_interval(mins => coalesce(c.fresh_within_minutes, 52560000))`); n != 2500 {
		t.Errorf("%d have their place", n)
	}
	if n := one[int](b, `SELECT count(*) FROM connector_freshness WHERE seen_by IS DISTINCT FROM 'user:7'`); n != 0 {
		t.Errorf("of %d it does not say who sees them", n)
	}
}
