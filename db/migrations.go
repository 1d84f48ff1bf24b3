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
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var files embed.FS

const (
	// migrationWait bounds how long a migration waits for another one that is running, in seconds.
	migrationWait = 60
	// lockTimeout is how long a migration waits for a table. Every later statement waits behind it, reads included.
	lockTimeout = 2 * time.Second
	// lockPause is how long it then lets the others pass before it tries again.
	lockPause = time.Second
)

// Status is one migration and when it was applied (zero: not yet).
type Status struct {
	Version   int64     `json:"version"`
	File      string    `json:"file"`
	AppliedAt time.Time `json:"applied_at"`
}

// Up applies every migration that is missing. It is safe to run twice and concurrently, and while services work: it
// waits for a table that somebody holds in short tries, until ctx ends. It returns ErrSchema where the schema is one
// that this program is too old for.
func Up(ctx context.Context, databaseURL string) error {
	return with(databaseURL, func(p *goose.Provider, conn *sql.DB) error {
		err := patiently(ctx, func() error {
			_, err := p.Up(ctx)
			return err
		})
		if err != nil {
			return err
		}
		return check(ctx, conn)
	})
}

// Down takes back the latest migration, or every one with all.
func Down(ctx context.Context, databaseURL string, all bool) error {
	return with(databaseURL, func(p *goose.Provider, _ *sql.DB) error {
		return patiently(ctx, func() error {
			var err error
			if all {
				_, err = p.DownTo(ctx, 0)
			} else if _, err = p.Down(ctx); errors.Is(err, goose.ErrNoNextVersion) {
				err = nil
			}
			return err
		})
	})
}

// List says of each migration whether it is applied.
func List(ctx context.Context, databaseURL string) ([]Status, error) {
	var out []Status
	err := with(databaseURL, func(p *goose.Provider, _ *sql.DB) error {
		all, err := p.Status(ctx)
		for _, s := range all {
			out = append(out, Status{Version: s.Source.Version, File: s.Source.Path, AppliedAt: s.AppliedAt})
		}
		return err
	})
	return out, err
}

// patiently repeats a step until nobody holds the tables it changes.
func patiently(ctx context.Context, step func() error) error {
	var held error
	for {
		err := step()
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "55P03" { // lock_not_available
			if ctx.Err() != nil {
				err = errors.Join(held, err)
			}
			return err
		}
		held = fmt.Errorf("a table is in use, see the oldest xact_start in pg_stat_activity: %w", err)
		select {
		case <-ctx.Done():
			return errors.Join(held, ctx.Err())
		case <-time.After(lockPause):
		}
	}
}

func check(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(driver any) error { return Check(ctx, driver.(*stdlib.Conn).Conn()) })
}

func with(databaseURL string, use func(*goose.Provider, *sql.DB) error) error {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("read DATABASE_URL: %w", err)
	}
	cfg.RuntimeParams["application_name"] = "echomind-migrate"
	cfg.RuntimeParams["lock_timeout"] = fmt.Sprint(lockTimeout.Milliseconds())
	conn := sql.OpenDB(stdlib.GetConnector(*cfg))
	defer func() { _ = conn.Close() }()
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, migrationWait))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, dir, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if err := use(provider, conn); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
