// Package echomind reads the connectors of the EchoMind that is written in Python (gen-mind/EchoMind) from its database. What its
// columns mean is from that repository's src/db-schema/schema.sql and docs/database-schema.md, which it links to as docs/db-schema.md,
// its models (src/echomind_lib/db/models), its migrations, and what reads them: docs/import.md says what rests on which.
package echomind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

// ErrNotEchoMind says that a database is another's.
var ErrNotEchoMind = errors.New("this is no database of the Python EchoMind")

const (
	queryTimeout = 15 * time.Second
	page         = 200
)

// Database is one of EchoMind's.
type Database struct {
	conn *pgx.Conn
	// hasTeams and hasGoogle: columns and a table that came with later versions.
	hasTeams, hasGoogle bool
}

// Open connects to a database, and looks whether it is one. A URL may be as SQLAlchemy writes it.
func Open(ctx context.Context, url string) (*Database, error) {
	scheme, rest, found := strings.Cut(url, "://")
	if driver, _, _ := strings.Cut(scheme, "+"); !found || driver != "postgres" && driver != "postgresql" {
		return nil, errors.New("--from must be a URL such as postgres://user@host:5432/echomind")
	}
	var d Database
	err := deadline.Do(ctx, "import.connect", queryTimeout, func(ctx context.Context) (err error) {
		d.conn, err = postgres.Connect(ctx, "postgres://"+rest, "echomind-import")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect to EchoMind's database: %w", err)
	}
	if err := d.look(ctx); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	return &d, nil
}

// Close ends the connection.
func (d *Database) Close(ctx context.Context) error {
	return deadline.Do(context.WithoutCancel(ctx), "import.close", queryTimeout, d.conn.Close)
}

// Name is what the database is called.
func (d *Database) Name() string { return d.conn.Config().Database }

// needed are the columns without which nothing can be said of a connector.
var needed = []string{"id", "name", "type", "config", "refresh_freq_minutes", "user_id", "scope", "scope_id", "status", "deleted_date"}

func (d *Database) look(ctx context.Context) error {
	return d.ask(ctx, "import.schema", func(ctx context.Context, tx pgx.Tx) error {
		var columns []string
		err := tx.QueryRow(ctx, `SELECT coalesce(array_agg(attname::text), '{}') FROM pg_attribute
			WHERE attrelid = to_regclass('connectors') AND attnum > 0 AND NOT attisdropped`).Scan(&columns)
		if err != nil {
			return err
		}
		has := map[string]bool{}
		for _, name := range columns {
			has[name] = true
		}
		for _, name := range needed {
			if !has[name] {
				return fmt.Errorf("%w: its table connectors has no column %s", ErrNotEchoMind, name)
			}
		}
		d.hasTeams = has["team_id"]
		return tx.QueryRow(ctx, `SELECT to_regclass('google_credentials') IS NOT NULL
			AND has_table_privilege(to_regclass('google_credentials'), 'SELECT')`).Scan(&d.hasGoogle)
	})
}

// ask reads in a transaction that cannot write.
func (d *Database) ask(ctx context.Context, name string, read func(context.Context, pgx.Tx) error) error {
	return deadline.Do(ctx, name, queryTimeout, func(ctx context.Context) error {
		return postgres.Snapshot(ctx, d.conn, func(tx pgx.Tx) error { return read(ctx, tx) })
	})
}

// Read gives a row for each connector, also for those that are deleted there.
func (d *Database) Read(ctx context.Context) (rows []imports.Row, err error) {
	for last, bytes := int64(-1<<62), 0; ; {
		var found []source
		err := d.ask(ctx, "import.connectors", func(ctx context.Context, tx pgx.Tx) error {
			answer, err := tx.Query(ctx, d.query(), last, page, imports.MaxValue)
			if err != nil {
				return err
			}
			found, err = pgx.CollectRows(answer, pgx.RowToStructByPos[source])
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read EchoMind's connectors: %w", err)
		}
		for _, s := range found {
			rows = append(rows, s.row())
			last = s.ID
			bytes += len(s.Config)
		}
		switch {
		case len(found) < page:
			return rows, nil
		case len(rows) >= imports.MaxRows || bytes > imports.MaxBytes:
			return nil, fmt.Errorf("%w: it has more than %d connectors, or %d bytes of configurations", imports.ErrTooLarge, imports.MaxRows, imports.MaxBytes)
		}
	}
}

// query reads a page. State is not read: it is a place in a listing of another program.
func (d *Database) query() string {
	team, google, join := "NULL::bigint", "NULL::jsonb", ""
	if d.hasTeams {
		team = "c.team_id::bigint"
	}
	if d.hasGoogle {
		google = "CASE WHEN g.user_id IS NOT NULL THEN jsonb_build_object('client_id', g.client_id, 'client_secret', g.client_secret, 'refresh_token', g.refresh_token) END"
		join = "LEFT JOIN google_credentials g ON g.user_id = c.user_id"
	}
	return `SELECT c.id::bigint, left(c.name::text, 1000), left(c.type::text, 100), coalesce(octet_length(c.config::text), 0),
		CASE WHEN octet_length(c.config::text) <= $3::integer THEN c.config::jsonb END, c.refresh_freq_minutes::bigint, c.user_id::bigint,
		left(c.scope::text, 100), left(c.scope_id::text, 1000), ` + team + `, left(c.status::text, 100), c.deleted_date IS NOT NULL, ` + google + `
		FROM connectors c ` + join + ` WHERE c.id > $1::bigint ORDER BY c.id LIMIT $2::integer`
}

// source is a connector as EchoMind has it.
type source struct {
	ID          int64
	Name, Type  string
	ConfigBytes int
	Config      json.RawMessage
	Minutes     *int64
	UserID      int64
	Scope       string
	ScopeID     *string
	TeamID      *int64
	Status      string
	Deleted     bool
	Google      json.RawMessage
}
