package ours

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

const (
	// crowdOwners share the connectors of a crowd.
	crowdOwners = 10_000
	// models are the connectors of a crowd that are added as users add them; the rest is like them.
	models = 1_000
)

// Crowd adds n connectors of 10,000 owners at rest, one in twenty for one of 1,000 groups, one in 1,000 for everybody, with documents and runs of the first
// twentieth. What triggers write down of the first thousand, and lists read, the statements here write of the rest: a million take minutes instead of hours.
func (s *System) Crowd(ctx context.Context, n int) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		if err := execute(ctx, conn,
			statement{`INSERT INTO connectors (name, type, user_id, scope, scope_id, refresh_freq_minutes, last_sync_at, fresh_within_minutes, config)
				SELECT 'source ' || i, (ARRAY['web', 'file', 'onedrive', 'google_drive', 'teams'])[1 + i % 5], 1 + i % $2::integer,
					CASE WHEN i % 1000 = 0 THEN 'org' WHEN i % 20 = 0 THEN 'group' ELSE 'user' END, CASE WHEN i % 1000 <> 0 AND i % 20 = 0 THEN 'team-' || i % 999 END, 1440,
					clock_timestamp() - random() * interval '12 hours', CASE WHEN i % 10 = 0 THEN 600 END, '{"url": "https://example.org/", "depth": 3}'
				FROM generate_series(1, $1::integer) i`, []any{min(n, models), crowdOwners}},
			statement{`INSERT INTO group_members (user_id, group_id) SELECT 1 + i % $1::integer, 'team-' || i % 999 FROM generate_series(0, $1::integer) i ON CONFLICT DO NOTHING`, []any{crowdOwners}},
			statement{`SET session_replication_role = replica`, nil},
		); err != nil {
			return err
		}
		like, err := alike(ctx, conn)
		if err != nil {
			return err
		}
		var before int // the number of the last connector before the crowd
		if err := conn.QueryRow(ctx, `SELECT id - 1 FROM connectors WHERE name = 'source 1'`).Scan(&before); err != nil {
			return fmt.Errorf("find the crowd: %w", err)
		}
		return execute(ctx, conn,
			statement{like, []any{n, crowdOwners, models, before}},
			statement{`SELECT setval(pg_get_serial_sequence('connectors', 'id'), max(id)) FROM connectors`, nil},
			statement{`INSERT INTO connector_freshness (connector_id, type, fresh_until, seen_by) SELECT c.id, c.type, CASE WHEN c.fresh_within_minutes IS NULL THEN c.created_at + make_interval(mins => 52560000)
				ELSE c.last_sync_at + make_interval(mins => c.fresh_within_minutes) END, api.webhook_place(c.type, c.user_id, c.scope, c.scope_id) FROM connectors c ON CONFLICT DO NOTHING`, nil},
			statement{`INSERT INTO connector_faults SELECT c.id, c.status, api.webhook_place(c.type, c.user_id, c.scope, c.scope_id), connector_fresh_until(c.fresh_within_minutes, c.last_sync_at, c.created_at)
				FROM connectors c WHERE c.at_fault ON CONFLICT DO NOTHING`, nil},
			statement{`TRUNCATE owner_counts`, nil},
			statement{`INSERT INTO owner_counts (user_id, connectors) SELECT c.user_id, count(*) FROM connectors c GROUP BY c.user_id`, nil},
			statement{`INSERT INTO documents (connector_id, source_id, title, status, config_version)
				SELECT c.id, 'document ' || i, 'Document ' || i, 'stored', 1 FROM connectors c, generate_series(1, 20) i WHERE c.id BETWEEN $2::integer + 1 AND $2 + $1::integer / 20`, []any{n, before}},
			statement{`INSERT INTO runs (id, connector_id, type, trigger, slot, due_at, started_at, config_version, dispatches, picked_up_at, try_id, fetched_at, completed_at, status, total)
				SELECT gen_random_uuid(), c.id, c.type, 'schedule', a.at, a.at, a.at, 1, 1, a.at, gen_random_uuid(), a.at, a.at, 'skipped', 0
				FROM connectors c, generate_series(1, 10) i, LATERAL (SELECT clock_timestamp() - make_interval(hours => i) AS at) a WHERE c.id BETWEEN $2::integer + 1 AND $2 + $1::integer / 20`, []any{n, before}},
			statement{`SET session_replication_role = origin`, nil},
			statement{`VACUUM ANALYZE connectors, connector_freshness, connector_faults, documents, runs, group_members, owner_counts`, nil},
		)
	})
}

type statement struct {
	sql  string
	args []any
}

func execute(ctx context.Context, conn *pgx.Conn, all ...statement) error {
	for _, s := range all {
		if _, err := conn.Exec(ctx, s.sql, s.args...); err != nil {
			return fmt.Errorf("add a crowd: %w", err)
		}
	}
	return nil
}

// alike is a statement that adds connectors up to the $1th behind connector $4, each like one of the first $3, with a name, an owner of $2, a type and a group of its own.
func alike(ctx context.Context, conn *pgx.Conn) (string, error) {
	var columns []string
	rows, err := conn.Query(ctx, `SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = 'connectors'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum`)
	if err == nil {
		columns, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	own := map[string]string{
		"id": "$4::integer + i", "name": "'source ' || i", "user_id": "1 + i % $2::integer", "type": "(ARRAY['web', 'file', 'onedrive', 'google_drive', 'teams'])[1 + (i + i / 10000) % 5]",
		"scope_id": "CASE WHEN m.scope = 'group' THEN 'team-' || i % 999 END", "last_sync_at": "m.last_sync_at - i * interval '1 microsecond'",
	}
	values := make([]string, len(columns))
	for i, c := range columns {
		var is bool
		if values[i], is = own[c]; !is {
			values[i] = "m." + c
		}
	}
	return fmt.Sprintf(`INSERT INTO connectors (%s) SELECT %s FROM generate_series($3::integer + 1, $1::integer) i JOIN connectors m ON m.id = $4 + 1 + (i - 1) %% $3`,
		strings.Join(columns, ", "), strings.Join(values, ", ")), err
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
