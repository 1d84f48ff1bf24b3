package db_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// A page of connectors, by whoever asks for it, does not read what a hundred thousand others have.
func TestAPageOfConnectorsReadsWhatItsViewerSees(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id)
		SELECT 'c', CASE WHEN n % 1000 = 0 THEN 'word_count' ELSE 'web' END, 10 + n / 20, CASE WHEN n % 10 = 0 THEN 'group' ELSE 'user' END,
			CASE WHEN n % 10 = 0 THEN 'g' || n % 5000 END FROM generate_series(1, 100000) n`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope) SELECT 'c', 'web', 9, 'org' FROM generate_series(1, 20)`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors`)
	const list = `SELECT * FROM api.connectors WHERE id > 0 ORDER BY id LIMIT 51`
	for name, c := range map[string]struct {
		who  identity.Who
		most int64
	}{
		"a user of few":       {identity.Who{UserID: 4000, Role: identity.User}, 200},
		"a user of none":      {identity.Who{UserID: 7, Role: identity.User}, 200},
		"a member of a group": {identity.Who{UserID: 4000, Role: identity.User, Groups: []string{"g10", "g20"}}, 300},
		"an administrator":    {identity.Who{UserID: 4000, Role: identity.Admin}, 3000},
		"a superadmin":        {identity.Who{UserID: 1, Role: identity.Superadmin}, 200},
	} {
		b.serves(c.who, func(tx pgx.Tx) {
			var plan string
			if err := tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+list).Scan(&plan); err != nil {
				t.Fatal(err)
			}
			_, shared, _ := strings.Cut(plan, `"Shared Hit Blocks": `)
			if n := leading(shared); n > c.most {
				t.Errorf("%s reads %d buffers, want at most %d:\n%s", name, n, c.most, plan)
			} else {
				t.Logf("%s reads %d buffers", name, n)
			}
		})
	}
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
