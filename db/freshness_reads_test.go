//go:build !race

package db_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/identity"
)

// Of 40,000 connectors, half of which say how old they may be, a page in the order of freshness reads what is on it, or what it is bound to.
func TestAPageByFreshnessReadsWhatItsViewerSees(t *testing.T) {
	b := newBase(t)
	rows := "40000"
	if more := os.Getenv("FRESHNESS_ROWS"); more != "" {
		rows = more
	}
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id, fresh_within_minutes, last_sync_at)
		SELECT 'c', 'web', 10 + n / 20, CASE WHEN n % 10 = 0 THEN 'group' ELSE 'user' END, CASE WHEN n % 10 = 0 THEN 'g' || n % 5000 END, CASE WHEN n % 2 = 0 THEN 60 END,
			now() - n * interval '1 second' FROM generate_series(1, ` + rows + `) n`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, last_sync_at) SELECT 'c', 'web', 9, 'org', now() FROM generate_series(1, 20)`)
	b.exec(`INSERT INTO connector_freshness SELECT id, type, last_sync_at + make_interval(mins => coalesce(fresh_within_minutes, 52560000)), api.webhook_place(type, user_id, scope, scope_id) FROM connectors`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, connector_freshness`)
	const page = `SELECT id, fresh_until FROM api.by_freshness WHERE (fresh_until, id) > ('0001-01-01Z', 0) $bound ORDER BY fresh_until, id LIMIT 26`
	const bound = `AND (fresh_until, id) <= $through`
	for name, c := range map[string]struct {
		who   identity.Who
		bound string
		most  int64
	}{
		"a user of few":                {identity.Who{UserID: 1500, Role: identity.User}, "", 300},
		"a user of none":               {identity.Who{UserID: 7, Role: identity.User}, "", 300},
		"a member of a group":          {identity.Who{UserID: 1500, Role: identity.User, Groups: []string{"g10", "g20"}}, "", 500},
		"a superadmin":                 {identity.Who{UserID: 1, Role: identity.Superadmin}, "", 300},
		"an administrator":             {identity.Who{UserID: 1500, Role: identity.Admin}, bound, 45_000},
		"a superadmin with a filter":   {identity.Who{UserID: 1, Role: identity.Superadmin}, bound + ` AND strpos(lower(name), 'nowhere') > 0`, 45_000},
		"a superadmin of what is late": {identity.Who{UserID: 1, Role: identity.Superadmin}, bound + ` AND fresh_until < (SELECT clock_timestamp())`, 300},
	} {
		b.serves(c.who, func(tx pgx.Tx) {
			var through string
			if err := tx.QueryRow(t.Context(), `SELECT format('(%L::timestamptz, %s)', t.fresh_until, t.connector_id) FROM api.freshness_through('0001-01-01Z', 0, 10000) t`).Scan(&through); err != nil {
				t.Fatal(err)
			}
			sql := strings.ReplaceAll(strings.ReplaceAll(page, "$bound", c.bound), "$through", through)
			n, plan := buffersOf(t, tx, sql)
			t.Log(name, fmt.Sprintf("reads %d buffers, %s", n, plan[strings.LastIndex(plan, "Execution"):]))
			if n > c.most {
				t.Errorf("%s reads %d buffers, want at most %d:\n%s", name, n, c.most, plan)
			}
		})
	}
}

func TestConnectorsOfBeforeTheMigrationHaveTheirPlaceByFreshness(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, fresh_within_minutes) SELECT 'c', 'web', 7, CASE WHEN n % 2 = 0 THEN 60 END FROM generate_series(1, 2500) n`)
	for one[int](b, `SELECT max(version_id)::integer FROM goose_db_version`) >= 29 {
		if err := db.Down(t.Context(), b.url, false); err != nil {
			t.Fatal(err)
		}
	}
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
