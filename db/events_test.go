package db_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/testonly/testkit"
)

// events are those that wait, in the order in which they are published.
func (b *base) events() (all []string) {
	b.Helper()
	rows, err := b.conn.Query(b.Context(), `SELECT CASE WHEN is_verdict THEN verdict ELSE coalesce(was, 'added') || ' ' || coalesce(status, 'deleted') END
		FROM moves.unpublished_events(10000) ORDER BY no`)
	if err != nil {
		b.Fatal(err)
	}
	if all, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		b.Fatal(err)
	}
	return all
}

// newest is the newest event's number.
func (b *base) newest() int64 {
	b.Helper()
	return one[int64](b, `SELECT last_value FROM event_numbers`)
}

func (b *base) tells(want ...string) {
	b.Helper()
	if got := b.events(); !slices.Equal(got, want) {
		b.Errorf("events are %q, want %q", got, want)
	}
}

// bounds has few events waited for.
func (b *base) bounds(status, verdicts int) {
	b.Helper()
	b.exec(`UPDATE event_bounds SET most_status = $1, most_verdicts = $2`, status, verdicts)
}

// silence removes all events.
func (b *base) silence() {
	b.Helper()
	b.exec(`SELECT moves.remove_events(ARRAY(SELECT no FROM moves.unpublished_events(10000)))`)
}

func TestEachMoveOfAConnectorAndEachVerdictIsOneEventInItsOrder(t *testing.T) {
	b := newBase(t)
	b.silence() // of the jobs of the system
	id := b.connector()
	b.complete(id)
	b.fail(id, "transient")
	b.exec(`SELECT moves.disable($1, 'enough')`, id)
	b.exec(`DELETE FROM connectors WHERE id = $1`, id)
	got := b.events()
	want := map[string]int{
		"added ACTIVE": 1, "ACTIVE PENDING": 2, "PENDING SYNCING": 2, "SYNCING ACTIVE": 1, "completed": 1, "SYNCING ERROR": 1, "failed": 1,
		"ERROR DISABLED": 1, "DISABLED deleted": 1,
	}
	have := map[string]int{}
	for _, e := range got {
		have[e]++
	}
	for e, n := range want {
		if have[e] != n {
			t.Errorf("%d events %q, want %d; all are %q", have[e], e, n, got)
		}
	}
	if got[0] != "added ACTIVE" || got[len(got)-1] != "DISABLED deleted" || len(got) != 11 {
		t.Errorf("events are %q", got)
	}
}

func TestAVerdictsEventIsInItsTransactionAlsoWhereThatIsTakenBack(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	try := b.syncing(id)
	b.silence()
	tx, err := b.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.tells()
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
	if got := b.events(); len(got) != 2 || !slices.Contains(got, "failed") || !slices.Contains(got, "SYNCING ERROR") {
		t.Errorf("events are %q", got)
	}
}

func TestAnEventThatCommitsLateIsPublishedThoughLaterNumbersAreGone(t *testing.T) {
	b := newBase(t)
	first, second := b.connector(), b.connector()
	b.silence()
	late := b.other()
	tx, err := late.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT moves.disable($1, 'late')`, first); err != nil {
		t.Fatal(err)
	}
	b.exec(`SELECT moves.disable($1, 'early')`, second)
	b.tells("ACTIVE DISABLED")
	b.silence()
	b.tells()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.tells("ACTIVE DISABLED")
	if no := one[int64](b, `SELECT min(no) FROM moves.unpublished_events(10)`); no >= b.newest() {
		t.Errorf("its number is %d, and it is no earlier one than %d", no, b.newest())
	}
}

func TestEventsOfStatusGiveWayBeforeVerdictsAndBothAreCounted(t *testing.T) {
	b := newBase(t)
	b.silence()
	b.bounds(2000, 5000)
	write := func(verdicts, statuses int) {
		b.exec(`INSERT INTO verdict_events (run_id, completed_at) SELECT gen_random_uuid(), clock_timestamp() FROM generate_series(1, $1)`, verdicts)
		b.exec(`INSERT INTO status_events (connector_id, type, was, status) SELECT 1, 'web', 'ACTIVE', 'DISABLED' FROM generate_series(1, $1)`, statuses)
		b.exec(`SELECT moves.bound_events()`)
	}
	write(1500, 1500)
	b.moves("(0,0)", `SELECT moves.dropped_events()`)
	write(0, 1500)
	if n := one[int64](b, `SELECT count(*) FROM status_events`); n != 2000 {
		t.Errorf("%d events of status wait, want the newest 2000", n)
	}
	if n := one[int64](b, `SELECT count(*) FROM verdict_events`); n != 1500 {
		t.Errorf("%d verdicts wait, want all", n)
	}
	b.moves("(1000,0)", `SELECT moves.dropped_events()`)
	write(0, 1000)
	b.moves("(2000,500)", `SELECT moves.dropped_events()`)
}

func TestWhoWritesEventsBoundsThemThoughNobodyPublishes(t *testing.T) {
	b := newBase(t)
	b.silence()
	b.bounds(100, 100)
	id := b.connector()
	b.exec(`DO $$ BEGIN FOR i IN 1..750 LOOP
		PERFORM moves.disable(c.id, 'x') FROM connectors c WHERE c.id = (SELECT max(id) FROM connectors);
		PERFORM moves.enable(c.id) FROM connectors c WHERE c.id = (SELECT max(id) FROM connectors); END LOOP; END $$`)
	if n := one[int64](b, `SELECT count(*) FROM status_events`); n < 100 || n > 100+1024 {
		t.Errorf("%d events of connector %d wait, want the newest 100 and less than a step more", n, id)
	}
}

func TestALeafIsEmptiedOnceEverythingHasLeftItAndNobodyHoldsIt(t *testing.T) {
	b := newBase(t)
	b.silence()
	b.exec(`INSERT INTO verdict_events (run_id, completed_at) SELECT gen_random_uuid(), clock_timestamp() FROM generate_series(1, 70000)`)
	b.exec(`DELETE FROM verdict_events WHERE no < (SELECT max(no) FROM verdict_events)`)
	held := b.other()
	tx, err := held.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM verdict_events`); err != nil {
		t.Fatal(err)
	}
	b.moves("0", `SELECT moves.clear_events()`)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.moves("1", `SELECT moves.clear_events()`) // not the one that is written
	if n := one[int64](b, `SELECT count(*) FROM verdict_events`); n != 1 {
		t.Errorf("%d events wait, want the one that was not removed", n)
	}
}

func TestALeafIsNotEmptiedByWhoDoesNotSeeWhatHasComeIntoIt(t *testing.T) {
	b := newBase(t)
	b.silence()
	tx, err := b.conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM connectors`); err != nil {
		t.Fatal(err)
	}
	other := b.other()
	other.connector()
	other.exec(`SELECT setval('event_numbers', 3 * 65536)`)
	b.moves("0", `SELECT moves.clear_events()`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.tells("added ACTIVE")
}

func TestFewLeavesAreEmptiedAtOnce(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO status_events (no, connector_id, type) SELECT n << 16, 1, 'web' FROM generate_series(4, 9) n`)
	b.exec(`DELETE FROM status_events`)
	b.exec(`DELETE FROM verdict_events`)
	b.moves("4", `SELECT moves.clear_events()`)
	b.moves("2", `SELECT moves.clear_events()`)
}

func TestAnEventThatSomebodyElseIsRemovingIsLeftToThatOne(t *testing.T) {
	b := newBase(t)
	b.silence()
	b.connector()
	other := b.other()
	tx, err := other.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const all = `SELECT moves.remove_events(ARRAY(SELECT no FROM moves.unpublished_events(10)))`
	if _, err := tx.Exec(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	b.moves("(0,0)", all)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.moves("(1,0)", all)
}

func TestPublishersTakeTurns(t *testing.T) {
	b := newBase(t)
	one, another := uuid.New(), uuid.New()
	const turn = `SELECT coalesce(moves.take_turn_to_publish($1, $2::interval) = (SELECT last_value FROM event_numbers), false)`
	b.moves("true", turn, one, "1 minute")
	b.moves("true", turn, one, "1 minute")
	b.moves("false", turn, another, "1 minute")
	b.moves("true", turn, one, "0")
	b.moves("true", turn, another, "1 minute")
	b.exec(`UPDATE event_publisher SET until = clock_timestamp()`)
	b.moves("true", turn, one, "1 minute")
}

// What a verdict's event says is read from the ledger.
func TestAVerdictWhoseWeekTheLedgerHasDroppedNamesNoConnector(t *testing.T) {
	b := newBase(t)
	b.silence()
	b.exec(`INSERT INTO verdict_events (run_id, completed_at) VALUES (gen_random_uuid(), clock_timestamp() - interval '1 year')`)
	b.moves("true", `SELECT connector_id IS NULL AND is_verdict FROM moves.unpublished_events(10)`)
}

func TestABoundThatMeetsALockFailsNoMove(t *testing.T) {
	b := newBase(t)
	id := b.connector() // its event lies in the first leaf
	b.bounds(10, 10)
	b.exec(`SELECT setval('event_numbers', 3 * 65536 + 1023)`)
	tx, err := b.other().conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE ONLY status_events_0 IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	b.moves("true", `SELECT moves.disable($1, 'x')`, id)
	b.tells("added ACTIVE", "ACTIVE DISABLED")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestABoundGoesOnBehindWhatSomebodyHolds(t *testing.T) {
	b := newBase(t)
	b.silence()
	b.bounds(1000, 1000)
	b.exec(`INSERT INTO status_events (connector_id, type, was, status) SELECT 1, 'web', 'ACTIVE', 'DISABLED' FROM generate_series(1, 6000)`)
	tx, err := b.other().conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM status_events ORDER BY no LIMIT 2100 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(2048,0)", "(2900,0)", "(2900,0)"} {
		b.exec(`SELECT moves.bound_events()`)
		b.moves(want, `SELECT moves.dropped_events()`)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(`SELECT moves.bound_events()`)
	b.moves("(4948,0)", `SELECT moves.dropped_events()`)
}

func TestABoundThatASnapshotHasMissedFailsNoMove(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.bounds(10, 10)
	b.exec(`SELECT setval('event_numbers', 3 * 65536 + 1023)`)
	tx, err := b.conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM connectors`); err != nil {
		t.Fatal(err)
	}
	b.other().silence()
	if _, err := tx.Exec(t.Context(), `SELECT moves.disable($1, 'x')`, id); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	b.tells("ACTIVE DISABLED")
}

// manyComeAndGo has events written and removed.
func (b *base) manyComeAndGo(n int) {
	b.Helper()
	b.exec(`INSERT INTO verdict_events (run_id, completed_at) SELECT gen_random_uuid(), clock_timestamp() FROM generate_series(1, $1::integer / 2)`, n)
	b.exec(`INSERT INTO status_events (connector_id, type, was, status) SELECT 1, 'web', 'ACTIVE', 'DISABLED' FROM generate_series(1, $1::integer / 2)`, n)
	b.exec(`DELETE FROM verdict_events WHERE no > $1`, b.newest()-int64(n))
	b.exec(`DELETE FROM status_events WHERE no > $1`, b.newest()-int64(n))
}

// notes has it noted where the first event is. Transactions of other databases may still have to end.
func (b *base) notes(want int64) {
	b.Helper()
	testkit.Eventually(b, 20*time.Second, func() error {
		if below := one[int64](b, `SELECT moves.note_empty_events()`); below != want {
			return fmt.Errorf("empty below %d, want %d", below, want)
		}
		return nil
	})
}

func TestWhoReadsTheOldestEventsPassesByNoneThatAreGoneThoughAnOldSnapshotKeepsThem(t *testing.T) {
	b := newBase(t)
	b.silence()
	b.bounds(0, 0)
	dump, err := b.other().conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dump.Rollback(t.Context()) }()
	if _, err := dump.Exec(t.Context(), `SELECT FROM status_events, verdict_events`); err != nil {
		t.Fatal(err)
	}
	readers := []string{`SELECT * FROM moves.unpublished_events(1000)`, `SELECT * FROM moves.events_waiting()`, `SELECT moves.bound_events()`}
	read := func(judge func(buffers int64) bool) {
		b.Helper()
		for _, sql := range readers {
			b.explained(sql, nil) // reads the catalogue
			if buffers, _ := b.explained(sql, nil); !judge(buffers) {
				t.Errorf("%s touches %d buffers", sql, buffers)
			} else {
				t.Logf("%s touches %d buffers", sql, buffers)
			}
		}
	}
	b.manyComeAndGo(100000)
	b.moves("0", `SELECT moves.clear_events()`)
	read(func(buffers int64) bool { return buffers > 1000 })
	b.notes(b.newest() + 1)
	read(func(buffers int64) bool { return buffers < 200 })
}

func TestAnEventWhoseTransactionIsOpenIsNotBelowWhatIsNotedEmpty(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.silence()
	b.manyComeAndGo(20000)
	b.notes(b.newest() + 1)
	tx, err := b.other().conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT moves.disable($1, 'late')`, id); err != nil {
		t.Fatal(err)
	}
	late := b.newest()
	for range 3 {
		b.manyComeAndGo(20000)
		b.moves(fmt.Sprint(late), `SELECT moves.note_empty_events()`)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.tells("ACTIVE DISABLED")
	b.manyComeAndGo(20000)
	b.exec(`SELECT moves.note_empty_events()`)
	b.tells("ACTIVE DISABLED")
	b.silence()
	b.notes(b.newest() + 1)
}

func TestWhoDrawsAnEventsNumberHasATransactionsID(t *testing.T) {
	b := newBase(t)
	for range 2 {
		b.exec(`INSERT INTO status_events (connector_id, type) VALUES (1, coalesce(pg_current_xact_id_if_assigned()::text, 'none'))`)
	}
	b.moves("0", `SELECT count(*) FROM status_events WHERE type = 'none'`)
}

func TestWhatIsEmptyIsNotedByWhoSeesWhatOthersCommitAndHasDrawnNothing(t *testing.T) {
	b := newBase(t)
	b.connector()
	const noted = `SELECT noted_xid FROM event_publisher`
	for _, how := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `BEGIN; CREATE TEMPORARY TABLE drawn ()`} {
		b.exec(how)
		b.moves("0", `SELECT moves.note_empty_events()`)
		b.moves("nothing", noted)
		b.exec(`ROLLBACK`)
	}
	b.moves("0", `SELECT moves.note_empty_events()`)
	b.moves("true", `SELECT noted_no = pg_sequence_last_value('event_numbers') FROM event_publisher`)
}

func TestWhatWasNotedInAnotherLifeOfTheDatabaseIsNotedAnew(t *testing.T) {
	b := newBase(t)
	b.connector()
	b.silence()
	// Restored where transactions have smaller ids.
	b.exec(`SELECT setval('event_numbers', 50000)`)
	b.exec(`UPDATE event_publisher SET empty_below = 7, noted_no = 40000, noted_xid = '999999999999', noted_at = clock_timestamp()`)
	b.moves("7", `SELECT moves.note_empty_events()`)
	b.moves("true", `SELECT noted_no = 50000 AND noted_xid < pg_snapshot_xmax(pg_current_snapshot()) FROM event_publisher`)
	b.notes(50001)
	b.exec(`SELECT setval('event_numbers', 1000)`)
	b.moves("0", `SELECT moves.note_empty_events()`)
	b.connector()
	b.tells("added ACTIVE")
}
