package db_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

func contextWithin(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// schema lists everything in the schemas public, moves and api: columns, constraints, indexes, views, functions, triggers,
// sequences, and who may do what with them.
func (b *base) schema() []string {
	b.Helper()
	rows, err := b.conn.Query(b.Context(), `
		WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'moves', 'api'))
		SELECT format('column %s.%s %s %s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
			pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attstorage, a.attacl)
			FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
			WHERE c.relnamespace IN (SELECT oid FROM ours) AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL SELECT format('relation %s %s %s %s %s', relname, relkind, relpersistence, reloptions, relacl) FROM pg_class
			WHERE relnamespace IN (SELECT oid FROM ours)
		UNION ALL SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
			WHERE connamespace IN (SELECT oid FROM ours)
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname IN ('public', 'moves', 'api')
		UNION ALL SELECT format('view %s %s', viewname, definition) FROM pg_views WHERE schemaname IN ('public', 'moves', 'api')
		UNION ALL SELECT format('%s %s', pg_get_functiondef(oid), proacl) FROM pg_proc
			WHERE pronamespace IN (SELECT oid FROM ours) AND prokind = 'f'
		UNION ALL SELECT format('schema %s %s', nspname, nspacl) FROM pg_namespace WHERE nspname IN ('moves', 'api')
		UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal`)
	if err != nil {
		b.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "goose_db_version") })
	slices.Sort(lines)
	return lines
}

func (b *base) migrate(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func TestDownToZeroAndUpAgainGiveTheSameSchema(t *testing.T) {
	b := newBase(t)
	before := b.schema()
	if len(before) < 100 {
		t.Fatalf("the schema has only %d parts", len(before))
	}
	b.migrate(db.Down(t.Context(), b.url, true))
	if left := b.schema(); len(left) != 0 {
		t.Errorf("down to zero leaves %v", left)
	}
	b.migrate(db.Up(t.Context(), b.url))
	if after := b.schema(); !slices.Equal(before, after) {
		for _, line := range after {
			if !slices.Contains(before, line) {
				t.Errorf("new: %s", line)
			}
		}
		t.Errorf("%d parts before, %d after", len(before), len(after))
	}
}

func TestEachStepDownAndUpGivesTheSameSchema(t *testing.T) {
	b := newBase(t)
	before := b.schema()
	all, err := db.List(t.Context(), b.url)
	b.migrate(err)
	for _, m := range slices.Backward(all) {
		b.migrate(db.Down(t.Context(), b.url, false))
		if have := one[int64](b, `SELECT max(version_id) FROM goose_db_version`); have >= m.Version {
			t.Errorf("%s was taken back and the version is %d", m.File, have)
		}
	}
	b.migrate(db.Down(t.Context(), b.url, false)) // nothing is left to take back
	b.migrate(db.Up(t.Context(), b.url))
	if !slices.Equal(before, b.schema()) {
		t.Error("the schema is another")
	}
}

func TestUpRunsConcurrently(t *testing.T) {
	b := connectTo(t, testkit.Database(t, db.Up))
	b.migrate(db.Down(t.Context(), b.url, true))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := db.Up(t.Context(), b.url); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	all, err := db.List(t.Context(), b.url)
	b.migrate(err)
	if n := one[int](b, `SELECT count(*) FROM goose_db_version WHERE version_id > 0`); n != len(all) {
		t.Errorf("%d migrations were applied, want %d", n, len(all))
	}
}

func TestUpTwiceChangesNothing(t *testing.T) {
	b := newBase(t)
	before := b.schema()
	b.migrate(db.Up(t.Context(), b.url))
	if !slices.Equal(before, b.schema()) {
		t.Error("the schema is another")
	}
}

func TestListSaysWhatIsApplied(t *testing.T) {
	b := newBase(t)
	b.migrate(db.Down(t.Context(), b.url, false))
	all, err := db.List(t.Context(), b.url)
	b.migrate(err)
	if last := all[len(all)-1].Version; last != db.Version() {
		t.Fatalf("the last migration is %d, want %d", last, db.Version())
	}
	for i, m := range all {
		if last := i == len(all)-1; m.AppliedAt.IsZero() != last {
			t.Errorf("migration %+v", m)
		}
	}
}

func TestABadAddressIsAnErrorThatDoesNotShowThePassword(t *testing.T) {
	err := db.Up(t.Context(), "postgres://me:hunter2@127.0.0.1:1/x?connect_timeout=1")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Up: %v", err)
	}
}
