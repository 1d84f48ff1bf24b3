package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
)

// ErrSchema says that these programs do not work on the database's schema.
var ErrSchema = errors.New("wrong schema version")

// Schema is how the database's schema and this program's stand to each other. Each is the number of a migration.
type Schema struct {
	// Program is what these programs were built for.
	Program int64 `json:"program"`
	// Database is the latest migration that was applied; 0 = none.
	Database int64 `json:"database"`
	// CompatibleFrom is the oldest schema whose programs still work on the database, by the database's own record.
	CompatibleFrom int64 `json:"compatible_from"`
}

// Err is nil where this program works on the database, and ErrSchema, with what to do, where it does not.
func (s Schema) Err() error {
	switch {
	case s.Database < s.Program:
		return fmt.Errorf("%w: the database is at %d, this program needs %d; run `echomind migrate up`",
			ErrSchema, s.Database, s.Program)
	case s.Program < s.CompatibleFrom:
		return fmt.Errorf("%w: the database is at %d and works with programs built for %d or later, this one was built for %d; "+
			"use the newer program", ErrSchema, s.Database, s.CompatibleFrom, s.Program)
	}
	return nil
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

// Querier is what Look needs of a connection or a pool.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Look asks the database for its schema.
func Look(ctx context.Context, q Querier) (Schema, error) {
	s := Schema{Program: Version()}
	var migrated, records bool
	const there = `SELECT to_regclass('goose_db_version') IS NOT NULL, to_regproc('schema_compatible_from') IS NOT NULL`
	if err := q.QueryRow(ctx, there).Scan(&migrated, &records); err != nil {
		return s, fmt.Errorf("ask for the schema version: %w", err)
	}
	if !migrated {
		return s, nil
	}
	const latest = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`
	if err := q.QueryRow(ctx, latest).Scan(&s.Database); err != nil {
		return s, fmt.Errorf("ask for the schema version: %w", err)
	}
	s.CompatibleFrom = s.Database // before there was a record, nothing but its own programs
	if records {
		if err := q.QueryRow(ctx, `SELECT schema_compatible_from()`).Scan(&s.CompatibleFrom); err != nil {
			return s, fmt.Errorf("ask which programs the schema works with: %w", err)
		}
	}
	return s, nil
}

// Check returns ErrSchema, saying what to do, unless these programs work on the database's schema: it has every
// migration they know, and says of those they do not know that they work with it all the same. Any other error means
// that the database could not be asked.
func Check(ctx context.Context, q Querier) error {
	s, err := Look(ctx, q)
	if err != nil {
		return err
	}
	return s.Err()
}
