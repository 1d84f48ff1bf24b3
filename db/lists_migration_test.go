package db_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/db"
)

// migrationWaits brings the schema up in the background, and returns once that waits for somebody's lock; what it returns is told how it ended.
func (b *base) migrationWaits() <-chan error {
	b.Helper()
	up := make(chan error, 1)
	go func() { up <- db.Up(b.Context(), b.url) }()
	for !one[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'echomind-migrate' AND wait_event_type = 'Lock')`) {
		select {
		case err := <-up:
			b.Fatalf("the migration did not wait: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return up
}

// A transaction that stands keeps the migration from the table of connectors: meanwhile they are synced, and given away.
func TestWhatAConnectorBecomesWhileTheMigrationOfListsWaitsIsNoted(t *testing.T) {
	b := newBase(t)
	b.before(48)
	given := one[int32](b, `INSERT INTO connectors (name, type, user_id, fresh_within_minutes) VALUES ('given', 'web', 7, 60) RETURNING id`)
	held := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('held', 'web', 7) RETURNING id`)
	off := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('off', 'web', 7) RETURNING id`)
	holder := connectTo(t, b.url)
	holder.exec(`BEGIN`)
	holder.exec(`UPDATE connectors SET name = 'still held' WHERE id = $1`, held)
	up := b.migrationWaits()
	b.exec(`UPDATE connectors SET fresh_within_minutes = 90 WHERE id = $1`, given)
	b.exec(`UPDATE connectors SET scope = 'group', scope_id = 'eng' WHERE id = $1`, given)
	b.moves("true", `SELECT moves.disable($1)`, off)
	holder.exec(`COMMIT`)
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	if seenBy := one[string](b, `SELECT seen_by FROM connector_freshness WHERE connector_id = $1`, given); seenBy != "group:eng" {
		t.Errorf("it is seen by %s, want group:eng", seenBy)
	}
	if status := one[string](b, `SELECT string_agg(concat_ws(' ', connector_id, status, seen_by), ',') FROM connector_faults`); status != fmt.Sprint(off, " DISABLED user:7") {
		t.Errorf("at fault is %s, want the last", status)
	}
}

// Those at fault are noted in the order of their types: one that becomes another type while it is waited for skips no other.
func TestAConnectorThatChangesItsTypeWhileThoseAtFaultAreNotedSkipsNoOther(t *testing.T) {
	b := newBase(t)
	b.before(48)
	first := one[int32](b, `INSERT INTO connectors (name, type, user_id, status) VALUES ('first', 'file', 7, 'DISABLED') RETURNING id`)
	b.exec(`INSERT INTO connectors (name, type, user_id, status) SELECT 'other', 'file', 7, 'DISABLED' FROM generate_series(1, 3)`)
	holder := connectTo(t, b.url)
	holder.exec(`BEGIN`)
	holder.exec(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, first)
	up := b.migrationWaits()
	holder.exec(`UPDATE connectors SET type = 'web' WHERE id = $1`, first)
	holder.exec(`COMMIT`)
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	if noted := one[int](b, `SELECT count(*) FROM connector_faults`); noted != 4 {
		t.Errorf("%d of 4 are noted", noted)
	}
}

// A transaction that reads as of when it began does not see what is noted since. It fails, to be repeated, and leaves no note of a connector that is at fault no more.
func TestATransactionThatIsOlderThanTheNoteOfAFaultLeavesNoneBehind(t *testing.T) {
	for _, isolation := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(isolation, func(t *testing.T) {
			b := newBase(t)
			b.before(48)
			off := one[int32](b, `INSERT INTO connectors (name, type, user_id, status) VALUES ('off', 'web', 7, 'DISABLED') RETURNING id`)
			last := one[int32](b, `INSERT INTO connectors (name, type, user_id, status) VALUES ('last', 'web', 7, 'DISABLED') RETURNING id`)
			older, holder := connectTo(t, b.url), connectTo(t, b.url)
			older.exec(`BEGIN ISOLATION LEVEL ` + isolation)
			older.exec(`SELECT FROM connector_types`)
			holder.exec(`BEGIN`)
			holder.exec(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, last)
			up := b.migrationWaits() // the first is noted
			_, err := older.conn.Exec(t.Context(), `SELECT moves.enable($1)`, off)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "40001" {
				t.Errorf("it is enabled: %v, want a serialization failure", err)
			}
			older.exec(`ROLLBACK`)
			b.moves("true", `SELECT moves.enable($1)`, off)
			holder.exec(`COMMIT`)
			if err := <-up; err != nil {
				t.Fatal(err)
			}
			if noted := one[string](b, `SELECT string_agg(connector_id::text, ',') FROM connector_faults`); noted != fmt.Sprint(last) {
				t.Errorf("%s are noted, want %d", noted, last)
			}
		})
	}
}

// Somebody holds one while who sees each is written down, and then changes another: neither waits for the other for ever, and the migration ends.
func TestWhoHoldsOneWhileItIsWrittenWhoSeesThemMayChangeAnother(t *testing.T) {
	b := newBase(t)
	b.before(48)
	first := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('first', 'web', 7) RETURNING id`)
	off := one[int32](b, `INSERT INTO connectors (name, type, user_id, status) VALUES ('off', 'web', 7, 'DISABLED') RETURNING id`)
	last := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('last', 'web', 7) RETURNING id`)
	holder, other := connectTo(t, b.url), connectTo(t, b.url)
	holder.exec(`BEGIN`)
	holder.exec(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, off)
	up := b.migrationWaits() // the triggers are there
	other.exec(`BEGIN`)
	other.exec(`UPDATE connectors SET fresh_within_minutes = 90 WHERE id = $1`, last)
	holder.exec(`COMMIT`)
	for !one[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'echomind-migrate' AND wait_event_type = 'Lock' AND query LIKE '%UPDATE connector_freshness%')`) {
		select {
		case err := <-up:
			t.Fatalf("the migration did not wait: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	b.exec(`SET lock_timeout = '500ms'`)
	b.exec(`UPDATE connectors SET fresh_within_minutes = 90 WHERE id = $1`, first) // waits for nobody
	other.exec(`UPDATE connectors SET fresh_within_minutes = 60 WHERE id = $1`, first)
	other.exec(`COMMIT`)
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	if unseen := one[int](b, `SELECT count(*) FROM connector_freshness WHERE seen_by IS DISTINCT FROM 'user:7' AND connector_id IN ($1, $2, $3)`, first, off, last); unseen > 0 {
		t.Errorf("of %d it is not written who sees them", unseen)
	}
}

// A try that is repeated, as it is for as long as somebody holds one, writes nothing to the many that are noted.
func TestTheMigrationOfListsHoldsNoConnectorThatIsNoted(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, status) SELECT 'off', 'web', 7, 'DISABLED' FROM generate_series(1, 10)`)
	lockedBy := `SELECT string_agg(xmax::text, ',' ORDER BY id) FROM connectors`
	before := one[string](b, lockedBy)
	b.exec(`DELETE FROM goose_db_version WHERE version_id >= 48`)
	if err := db.Up(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
	if after := one[string](b, lockedBy); after != before {
		t.Errorf("they were held by %s, and are by %s", before, after)
	}
}
