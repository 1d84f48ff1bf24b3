package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

// next does what a migration after this program's latest one does.
func (b *base) next(statements string) {
	b.Helper()
	b.exec(statements)
	b.exec(`INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version`)
}

// compatibleFrom is what a contract migration says of the programs before it.
func compatibleFrom(version int64) string {
	return fmt.Sprintf(`CREATE OR REPLACE FUNCTION schema_compatible_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT %d::bigint'`,
		version)
}

func TestAProgramWorksOnANewerSchemaAsLongAsTheDatabaseSaysSo(t *testing.T) {
	own := db.Version()
	for name, c := range map[string]struct{ change, refused string }{
		"its own":                    {`SELECT`, ""},
		"expanded":                   {`ALTER TABLE connectors ADD COLUMN colour text`, ""},
		"contracted without us":      {compatibleFrom(own + 1), "use the newer program"},
		"contracted, and we can":     {compatibleFrom(own), ""},
		"without a record":           {`DROP FUNCTION schema_compatible_from()`, "use the newer program"},
		"a record that knows of us":  {compatibleFrom(own - 1), ""},
		"a step back, then a record": {compatibleFrom(own + 5), fmt.Sprintf("works with programs built for %d or later", own+5)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			b.next(c.change)
			err := db.Check(t.Context(), b.conn)
			if c.refused == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if c.refused != "" && (!errors.Is(err, db.ErrSchema) || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%v, want it to say %q", err, c.refused)
			}
			if up := db.Up(t.Context(), b.url); errors.Is(up, db.ErrSchema) != (c.refused != "") {
				t.Errorf("migrate up: %v", up)
			}
		})
	}
}

func TestAProgramRefusesAnOlderSchemaAndNone(t *testing.T) {
	b := newBase(t)
	for name, c := range map[string]struct{ change, says string }{
		"older": {`DELETE FROM goose_db_version WHERE version_id >= 5`, "run `echomind migrate up`"},
		"none":  {`DROP TABLE goose_db_version`, "is at 0"},
	} {
		b.exec(`BEGIN`)
		b.exec(c.change)
		if err := db.Check(t.Context(), b.conn); !errors.Is(err, db.ErrSchema) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		b.exec(`ROLLBACK`)
	}
	b.migrate(b.conn.Close(t.Context()))
	if err := db.Check(t.Context(), b.conn); err == nil || errors.Is(err, db.ErrSchema) {
		t.Errorf("a database that cannot be asked: %v", err)
	}
}

// baseline is the last migration of the schema's beginning, behind which no released program stands.
const baseline = 20

// What the record says is decided file by file, and a migration that takes away and says nothing would be found by
// programs that are running.
func TestEveryMigrationSaysWhetherItExpandsOrContracts(t *testing.T) {
	migrations, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatal(err, migrations)
	}
	contracts := regexp.MustCompile(`(?m)^CREATE OR REPLACE FUNCTION schema_compatible_from\(\).*'SELECT (\d+)::bigint'`)
	takesAway := regexp.MustCompile(`(?im)^\s*(DROP (TABLE|VIEW|COLUMN|FUNCTION)|ALTER TABLE .*(RENAME|DROP COLUMN)|.*\bSET NOT NULL)`)
	record := int64(baseline)
	for _, file := range migrations {
		number, err := goose.NumericComponent(file)
		if err != nil {
			t.Fatal(err)
		}
		if number <= baseline {
			continue
		}
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(whole), "-- +goose Down")
		says := contracts.FindAllStringSubmatch(up, -1)
		switch expand, contract := strings.Contains(up, "\n-- expand\n"), strings.Contains(up, "\n-- contract\n"); {
		case expand == contract:
			t.Errorf("%s: the line after `-- +goose Up` must be `-- expand` or `-- contract`, see docs/adr/0009", file)
		case expand && len(says) > 0:
			t.Errorf("%s expands and changes what programs the schema works with", file)
		case expand && takesAway.MatchString(up):
			t.Errorf("%s expands and has %q", file, takesAway.FindString(up))
		case contract && len(says) != 1:
			t.Errorf("%s contracts and must replace schema_compatible_from() once", file)
		case contract:
			from, _ := strconv.ParseInt(says[0][1], 10, 64)
			if from <= record || from > number {
				t.Errorf("%s says %d, want more than %d and at most %d", file, from, record, number)
			}
			record = from
		}
	}
}

// heldUp takes back what changes connectors, and opens a transaction that has written them.
func (b *base) heldUp() *base {
	b.Helper()
	for one[int64](b, `SELECT max(version_id) FROM goose_db_version`) >= 6 { // 0006 makes triggers
		b.migrate(db.Down(b.Context(), b.url, false))
	}
	long := connectTo(b.T, b.url)
	long.exec(`BEGIN`)
	long.exec(`UPDATE connectors SET name = name`)
	return long
}

func TestAMigrationBehindALongTransactionDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	long := b.heldUp()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	migrated := make(chan error, 1)
	go func() { migrated <- db.Up(ctx, b.url) }()
	waits := func() error {
		if !one[bool](b, `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT granted AND application_name = 'echomind-migrate' AND datname = current_database())`) {
			return errors.New("it does not wait")
		}
		return nil
	}
	for range 2 { // it comes back after it has let others pass
		testkit.Eventually(t, 20*time.Second, waits)
		b.exec(`UPDATE connectors SET name = name`) // behind it, which lets it pass: the long transaction goes on
	}
	select {
	case err := <-migrated:
		t.Fatalf("it ended behind the lock: %v", err)
	default:
	}
	long.exec(`COMMIT`)
	b.migrate(<-migrated)
	b.migrate(db.Check(t.Context(), b.conn))
}

func TestAMigrationThatGivesUpSaysWhereToLook(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.heldUp()
	ctx, cancel := contextWithin(t, 6*time.Second)
	defer cancel()
	if err := db.Up(ctx, b.url); err == nil || !strings.Contains(err.Error(), "pg_stat_activity") {
		t.Errorf("Up: %v", err)
	}
}
