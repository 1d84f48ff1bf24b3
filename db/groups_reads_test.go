//go:build !race

package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// A member of two groups of 2,500 reads what these two have, and an index says whether that is more than so many.
func TestAListReadsNothingOfOtherGroups(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id) SELECT 'c', 'web', 10 + n % 1000, 'group', 'g' || n % 2500 FROM generate_series(1, 50000) n`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope) SELECT 'c', 'web', 10, 'org' FROM generate_series(1, 2000) n`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors`)
	b.serves(identity.Who{UserID: 7, Role: identity.User, Groups: []string{"g1", "g2"}}, func(tx pgx.Tx) {
		for sql, most := range map[string]int64{
			`SELECT * FROM api.connectors WHERE scope = 'group' ORDER BY id LIMIT 51`: 100,
			`SELECT api.sees_more_than(1000)`:                                         40,
			`SELECT api.sees_more_than(10000)`:                                        60,
		} {
			if n, plan := buffersOf(t, tx, sql); n > most {
				t.Errorf("%s reads %d buffers, want at most %d:\n%s", sql, n, most, plan)
			} else {
				t.Logf("%d buffers: %s", n, sql)
			}
		}
		for most, want := range map[int]bool{2039: true, 2040: false} {
			var more bool
			if err := tx.QueryRow(t.Context(), `SELECT api.sees_more_than($1)`, most).Scan(&more); err != nil || more != want {
				t.Errorf("more than %d: %v, %v", most, more, err)
			}
		}
	})
}
