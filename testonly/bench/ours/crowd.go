package ours

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// crowdOwners share the connectors of a crowd.
const crowdOwners = 10_000

// Crowd adds n connectors of 10,000 owners at rest, one in twenty for one of 1,000 groups, one in 1,000 for everybody, with documents and runs of the first tenth.
func (s *System) Crowd(ctx context.Context, n int) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		for _, sql := range []string{
			`INSERT INTO connectors (name, type, user_id, scope, scope_id, refresh_freq_minutes, last_sync_at, fresh_within_minutes, config)
				SELECT 'source ' || i, (ARRAY['web', 'file', 'onedrive', 'google_drive', 'teams'])[1 + (i + i / 10000) % 5], 1 + i % $2::integer,
					CASE WHEN i % 1000 = 0 THEN 'org' WHEN i % 20 = 0 THEN 'group' ELSE 'user' END, CASE WHEN i % 1000 <> 0 AND i % 20 = 0 THEN 'team-' || i % 999 END, 1440,
					clock_timestamp() - random() * interval '12 hours', CASE WHEN i % 10 = 0 THEN 600 END, '{"url": "https://example.org/", "depth": 3}'
				FROM generate_series(1, $1::integer) i`,
			`INSERT INTO documents (connector_id, source_id, title, status, config_version)
				SELECT c.id, 'document ' || i, 'Document ' || i, 'stored', 1 FROM connectors c, generate_series(1, 20) i WHERE c.id <= $1 / 20 + $2 * 0`,
			`INSERT INTO runs (id, connector_id, type, trigger, slot, due_at, started_at, config_version, dispatches, picked_up_at, try_id, fetched_at, completed_at, status, total)
				SELECT gen_random_uuid(), c.id, c.type, 'schedule', a.at, a.at, a.at, 1, 1, a.at, gen_random_uuid(), a.at, a.at, 'skipped', 0
				FROM connectors c, generate_series(1, 10) i, LATERAL (SELECT clock_timestamp() - make_interval(hours => i) AS at) a WHERE c.id <= $1 / 20 + $2 * 0`,
			`INSERT INTO group_members (user_id, group_id) SELECT 1 + i % $2::integer, 'team-' || i % 999 FROM generate_series(0, $2::integer) i WHERE $1 > 0 ON CONFLICT DO NOTHING`,
		} {
			if _, err := conn.Exec(ctx, sql, n, crowdOwners); err != nil {
				return fmt.Errorf("add a crowd: %w", err)
			}
		}
		_, err := conn.Exec(ctx, `VACUUM ANALYZE connectors, documents, runs, group_members`)
		return err
	})
}

// Token makes a token of a user that reads.
func (s *System) Token(ctx context.Context, user int, role identity.Role) (token string, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		secret := identity.NewSecret()
		var id int32
		err := conn.QueryRow(ctx, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES ($1, $2, '{read}', $3, 'bench') RETURNING id`,
			user, string(role), secret.Hash()).Scan(&id)
		token = identity.Token(id, secret)
		return err
	})
	return token, err
}

// Seen are some connectors of a user.
func (s *System) Seen(ctx context.Context, user int) (ids []int32, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT id FROM connectors WHERE user_id = $1 AND scope = 'user' ORDER BY id LIMIT 10`, user)
		if err == nil {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		}
		return err
	})
	return ids, err
}

// Listening is how many connections of the API listen, and how many it has.
func (s *System) Listening(ctx context.Context) (listen, all float64, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE query ILIKE 'listen%'), count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'echomind-api%'`).
			Scan(&listen, &all)
	})
	return listen, all, err
}

// Bus is where its broker is.
func (s *System) Bus() string { return s.bus }

// Postmaster is the process that the backends are children of.
func (s *System) Postmaster() (int, error) { return s.place.Postmaster() }
