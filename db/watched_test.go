package db_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// tokenOf makes a token of a user's, and returns its number.
func (b *base) tokenOf(user int32, role identity.Role) int32 {
	b.Helper()
	return one[int32](b, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES ($1, $2, '{read}', sha256(gen_random_uuid()::text::bytea), 'test') RETURNING id`, user, string(role))
}

// A watcher says at each look who they are, and no more: what they see is what the views show to whoever signs in so now.
func TestWhoWatchesRunsSeesOfThemWhatTheViewsShow(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('mine', 'web', 7, 'user', NULL), ('theirs', 'web', 8, 'user', NULL),
		('led', 'web', 8, 'group', 'led'), ('ours', 'web', 8, 'group', 'ours'), ('of others', 'web', 8, 'group', 'others'), ('open', 'web', 8, 'org', NULL)`)
	b.exec(`INSERT INTO group_members VALUES (7, 'led', true), (7, 'ours', false)`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version, warnings)
		SELECT gen_random_uuid(), id, user_id, 'web', 'manual', now(), now(), now(), 1, '{"left out"}' FROM connectors`)
	b.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, picked_up_at, completed_at, status, config_version, warnings)
		SELECT gen_random_uuid(), id, 'web', 'manual', now(), now(), now(), now(), 'completed', 1, '{"left out"}' FROM connectors`)
	b.exec(`UPDATE connectors SET user_id = 9 WHERE name = 'mine'`) // what it did before is not for its new owner
	b.exec(`UPDATE connectors SET user_id = 7 WHERE name = 'mine'`)
	all := one[string](b, `SELECT format('%L, %L', array_agg(id), array_agg(started_at)) FROM scheduler_runs`)
	for _, role := range identity.Roles {
		who := identity.Who{UserID: 7, TokenID: b.tokenOf(7, role), Role: role, Groups: []string{"led", "ours"}, Leads: []string{"led"}}
		b.serves(who, func(tx pgx.Tx) {
			shown := func(sql string) (rows string) {
				if err := tx.QueryRow(t.Context(), `SELECT coalesce(string_agg(concat_ws(' ', s.id, s.status, s.name, s.warnings), E'\n' ORDER BY s.id), '') FROM (`+sql+`) s`).Scan(&rows); err != nil {
					t.Fatal(err)
				}
				return rows
			}
			want := shown(`SELECT r.id, r.status, c.name, r.warnings FROM api.runs r LEFT JOIN api.connectors c ON c.id = r.connector_id`)
			got := shown(fmt.Sprintf(`SELECT (w.run).id, (w.run).status, w.connector_name AS name, (w.run).warnings FROM api.watched_runs('{"user_id": 7, "token_id": %d}', %s) w`, who.TokenID, all))
			if want == "" || got != want {
				t.Errorf("%s: watches\n%s\nand sees\n%s", role, got, want)
			}
			if shown(`SELECT r.id, r.status, NULL AS name, NULL AS warnings FROM api.runs r`) == "" {
				t.Error("after a look the transaction serves nobody")
			}
		})
	}
}

// A look at open runs reads nothing of the ledger, and one at runs that have ended no week from before they began.
func TestALookAtWatchedRunsReadsTheWeeksInWhichTheyEnded(t *testing.T) {
	const weeks, watched = 56, 50
	b := newBase(t)
	for n := 1; n <= weeks; n++ { // behind those that are there
		b.exec(fmt.Sprintf(`DO $$ DECLARE begins timestamptz := date_trunc('week', now(), 'UTC') - interval '%d weeks'; BEGIN
			EXECUTE format('CREATE TABLE %%I PARTITION OF runs FOR VALUES FROM (%%L) TO (%%L)',
				'runs_' || to_char(begins AT TIME ZONE 'UTC', 'YYYYMMDD'), begins, begins + interval '7 days');
		END $$`, n))
	}
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 7 FROM generate_series(1, $1)`, 2*watched)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT gen_random_uuid(), id, user_id, 'web', 'manual', now(), now(), now(), 1 FROM connectors`)
	b.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, picked_up_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 1 + n % 100, 'web', 'manual', at, at, at, at, 'completed', 1 FROM generate_series(1, 100000) n, LATERAL (SELECT now() - n * interval '5 minutes') t(at)`)
	b.exec(`VACUUM ANALYZE connectors, open_runs, runs`)
	watcher, err := json.Marshal(map[string]int32{"user_id": 7, "token_id": b.tokenOf(7, identity.User)})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		from string
		most int64
	}{
		"open":  {`open_runs`, 25 * watched},
		"ended": {`runs`, 35 * watched},
	} {
		some := one[string](b, fmt.Sprintf(`SELECT format('%%L, %%L', array_agg(s.id), array_agg(s.started_at)) FROM (SELECT id, started_at FROM %s ORDER BY started_at DESC LIMIT %d) s`, c.from, watched))
		b.reads(fmt.Sprintf("a look at %d %s runs", watched, what), c.most, fmt.Sprintf(`SELECT * FROM api.watched_runs('%s', %s)`, watcher, some))
	}
	open := one[uuid.UUID](b, `SELECT id FROM open_runs LIMIT 1`)
	b.reads("a look for one open run", 30, fmt.Sprintf(`SELECT * FROM api.runs WHERE id = '%s' AND status = 'running'`, open))
}

// reads bounds what a statement of a user's reads.
func (b *base) reads(what string, most int64, sql string) {
	b.Helper()
	b.serves(identity.Who{UserID: 7, Role: identity.User}, func(tx pgx.Tx) {
		n, plan := buffersOf(b.T, tx, sql)
		if b.Logf("%s reads %d buffers", what, n); n > most {
			b.Errorf("%s reads %d buffers, want at most %d:\n%s", what, n, most, plan)
		}
	})
}
