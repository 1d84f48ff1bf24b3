// Package db holds the schema of EchoMind Sync: its migrations, which are its only source, and how to
// apply and check them.
package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var files embed.FS

// ErrSchema says that the database's schema is not the one these binaries were built for.
var ErrSchema = errors.New("wrong schema version")

// lockWait bounds how long a migration waits for another one that is running, in seconds.
const lockWait = 60

// Status is one migration and when it was applied (zero: not yet).
type Status struct {
	Version   int64     `json:"version"`
	File      string    `json:"file"`
	AppliedAt time.Time `json:"applied_at"`
}

// Up applies every migration that is missing. It is safe to run twice and concurrently.
func Up(ctx context.Context, databaseURL string) error {
	return with(databaseURL, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// Down takes back the latest migration, or every one with all.
func Down(ctx context.Context, databaseURL string, all bool) error {
	return with(databaseURL, func(p *goose.Provider) error {
		var err error
		if all {
			_, err = p.DownTo(ctx, 0)
		} else if _, err = p.Down(ctx); errors.Is(err, goose.ErrNoNextVersion) {
			err = nil
		}
		return err
	})
}

// List says of each migration whether it is applied.
func List(ctx context.Context, databaseURL string) ([]Status, error) {
	var out []Status
	err := with(databaseURL, func(p *goose.Provider) error {
		all, err := p.Status(ctx)
		for _, s := range all {
			out = append(out, Status{Version: s.Source.Version, File: s.Source.Path, AppliedAt: s.AppliedAt})
		}
		return err
	})
	return out, err
}

// Version is the schema version these binaries were built for.
func Version() int64 {
	entries, err := fs.ReadDir(files, "migrations") // in the order of their numbers
	if err != nil {
		panic(err) // embedded at build time
	}
	number, err := goose.NumericComponent(entries[len(entries)-1].Name())
	if err != nil {
		panic(err)
	}
	return number
}

// Querier is what Check needs of a connection or a pool.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Check returns ErrSchema, saying how to migrate, unless the database has exactly the schema these
// binaries were built for. Any other error means that the database could not be asked.
func Check(ctx context.Context, q Querier) error {
	var exists bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&exists); err != nil {
		return fmt.Errorf("ask for the schema version: %w", err)
	}
	have := int64(0)
	if exists {
		const latest = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`
		if err := q.QueryRow(ctx, latest).Scan(&have); err != nil {
			return fmt.Errorf("ask for the schema version: %w", err)
		}
	}
	switch want := Version(); {
	case have < want:
		return fmt.Errorf("%w: the database is at %d, this program needs %d; run `echomind migrate up`",
			ErrSchema, have, want)
	case have > want:
		return fmt.Errorf("%w: the database is at %d, this program was built for %d; use the newer program",
			ErrSchema, have, want)
	}
	return nil
}

func with(databaseURL string, use func(*goose.Provider) error) error {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("read DATABASE_URL: %w", err)
	}
	conn := sql.OpenDB(stdlib.GetConnector(*cfg))
	defer func() { _ = conn.Close() }()
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockWait))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, dir, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if err := use(provider); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
