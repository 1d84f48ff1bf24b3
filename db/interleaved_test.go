package db_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// other is a second connection to the same database.
func (b *base) other() *base { return connectTo(b.T, b.url) }

// waits begins a statement on b's connection, and returns when it waits for a lock; the function that it returns waits for its
// answer.
func (b *base) waits(sql string, args ...any) (answer func() string) {
	b.Helper()
	watcher, pid := b.other(), b.conn.PgConn().PID()
	done := make(chan string, 1)
	go func() { done <- b.asked(sql, args...) }()
	testkit.Eventually(b.T, 10*time.Second, func() error {
		if !one[bool](watcher, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock')`, pid) {
			return errors.New("it does not wait")
		}
		return nil
	})
	return func() string { return <-done }
}

// asked is the first value that a statement answers, as text; "nothing" where it answers none, or null.
func (b *base) asked(sql string, args ...any) string {
	var value *string
	err := b.conn.QueryRow(b.Context(), `SELECT v::text FROM (`+sql+`) q(v)`, args...).Scan(&value)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && value == nil:
		return "nothing"
	case err != nil:
		return err.Error()
	}
	return *value
}

const (
	rescue    = `SELECT lost_run FROM moves.rescue(jsonb_build_array(jsonb_build_object('id', $1::uuid, 'beats', $2::bigint)), '1 hour', 10)`
	heartbeat = `SELECT moves.heartbeat($1, '15 s', ARRAY[$2::uuid], ARRAY[$3::uuid])`
)

// lost is a connector whose worker's lease has run out, as the scheduler has looked at it.
func (b *base) lost() (id int32, worker, run, try uuid.UUID, beats int64) {
	b.Helper()
	id = b.synced()
	t := b.syncing(id)
	worker = one[uuid.UUID](b, `SELECT worker_id FROM open_runs WHERE id = $1`, t.Run)
	beats = one[int64](b, `UPDATE workers SET expires_at = now() - interval '1 s' WHERE id = $1 RETURNING beats`, worker)
	return id, worker, t.Run, t.ID, beats
}

func TestARunIsNeverBothKeptByItsWorkerAndRescued(t *testing.T) {
	b := newBase(t)
	second := b.other()

	id, worker, run, try, beats := b.lost()
	b.exec(`BEGIN`)
	if got := b.asked(rescue, worker, beats); got != run.String() {
		t.Fatalf("rescue: %s", got)
	}
	answer := second.waits(heartbeat, worker, run, try)
	b.exec(`COMMIT`)
	if got := answer(); got != try.String() {
		t.Errorf("a heartbeat behind a rescue takes the run for its own: %s", got)
	}
	b.holds(id, `c.status = 'PENDING' AND c.run_id <> '`+run.String()+`' AND c.failure_count = 1`)

	id, worker, run, try, beats = b.lost()
	b.exec(`BEGIN`)
	if got := b.asked(heartbeat, worker, run, try); got != "nothing" {
		t.Fatalf("heartbeat: %s", got)
	}
	for range 2 { // beside the heartbeat, and after it with what was seen before
		if got := second.asked(rescue, worker, beats); got != "nothing" {
			t.Errorf("a rescue beside a heartbeat: %s", got)
		}
		if one[bool](b, `SELECT pg_current_xact_id_if_assigned() IS NOT NULL`) {
			b.exec(`COMMIT`)
		}
	}
	b.holds(id, `c.status = 'SYNCING' AND c.run_id = '`+run.String()+`'`)

	for range 50 {
		id, worker, run, try, beats := b.lost()
		var rescued, missing string
		both(func() { rescued = b.asked(rescue, worker, beats) }, func() { missing = second.asked(heartbeat, worker, run, try) })
		if (rescued == run.String()) != (missing == try.String()) || one[bool](b, `SELECT run_id = $2 FROM connectors WHERE id = $1`, id, run) != (missing == "nothing") {
			t.Errorf("rescued: %s; not the worker's: %s", rescued, missing)
		}
	}
}

func both(one, other func()) {
	var group sync.WaitGroup
	group.Go(one)
	group.Go(other)
	group.Wait()
}

func TestAWorkerThatPicksUpWhileItIsRescuedKeepsTheNewRunOnly(t *testing.T) {
	b := newBase(t)
	second := b.other()
	next := b.in("PENDING")
	_, worker, run, try, beats := b.lost()
	b.exec(`BEGIN`)
	b.asked(rescue, worker, beats)
	nextTry := uuid.New()
	answer := second.waits(`SELECT moves.pick_up($1, $2, $3, $4, '15 s')`, next, b.run(next), nextTry, worker)
	b.exec(`COMMIT`)
	if got := answer(); got != "true" {
		t.Fatalf("pick_up: %s", got)
	}
	if got := b.asked(`SELECT array_agg(h) FROM moves.heartbeat($1, '15 s', ARRAY[$2, $4]::uuid[], ARRAY[$3, $5]::uuid[]) h`,
		worker, run, try, b.run(next), nextTry); got != "{"+try.String()+"}" {
		t.Errorf("not the worker's: %s", got)
	}
}

// One held row, or one subscriber's transaction that nobody ends, must not stop the rescue of all others.
func TestAHeldRunStopsNoRescueOfOthers(t *testing.T) {
	b := newBase(t)
	b.exec(`SET lock_timeout = '2s'`)
	_, held, heldRun, heldTry, beats := b.lost()
	_, other, otherRun, _, otherBeats := b.lost()
	second := b.other()
	second.exec(`BEGIN`)
	second.moves("true", `SELECT moves.hold($1, $2)`, heldRun, heldTry)
	got := b.asked(`SELECT array_agg(lost_run) FROM moves.rescue(jsonb_build_array(jsonb_build_object('id', $1::uuid, 'beats', $2::bigint),
		jsonb_build_object('id', $3::uuid, 'beats', $4::bigint)), '1 hour', 10)`, held, beats, other, otherBeats)
	if got != "{"+otherRun.String()+"}" { // a wait for the row ends with an error
		t.Errorf("rescued %s", got)
	}
	second.exec(`COMMIT`)
	if got := b.asked(rescue, held, beats); got != heldRun.String() {
		t.Errorf("once it is free: %s", got)
	}
}

// What was stored or drained between the look at the run and its lock is not lost.
func TestARunThatBecomesWholeWhileItIsRescuedIsNotRescued(t *testing.T) {
	b := newBase(t)
	for change, want := range map[string]string{`total = 1, stored = 1, whole = true`: "nothing", `drain_seq = 9, worker_id = NULL`: "nothing"} {
		id, worker, run, _, beats := b.lost()
		second := b.other()
		second.exec(`BEGIN`)
		second.exec(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, id)
		second.exec(`UPDATE open_runs SET `+change+` WHERE id = $1`, run)
		if got := b.asked(rescue, worker, beats); got != want {
			t.Errorf("beside it: %s", got)
		}
		second.exec(`COMMIT`)
		if got := b.asked(rescue, worker, beats); got != want {
			t.Errorf("after it: %s", got)
		}
	}
}

func TestOfAPickUpAndAReleaseOfOneMessageOneWins(t *testing.T) {
	b := newBase(t)
	second := b.other()
	id := b.connector()
	for range 60 {
		run := movestest.Claim(t, b.conn, id)
		var picked, released string
		try := uuid.New()
		both(func() { picked = b.asked(`SELECT moves.pick_up($1, $2, $3)`, id, run, try) },
			func() { released = second.asked(`SELECT moves.release($1, $2)`, run, uuid.New()) })
		status := string(b.status(id))
		if picked == released || (picked == "true") != (status == "SYNCING") {
			t.Fatalf("picked up: %s, released: %s, and it is %s", picked, released, status)
		}
		if picked == "true" {
			b.moves("true", `SELECT moves.release($1, $2)`, run, try)
		}
	}
}

func TestACompletionAndAChangeNeverMix(t *testing.T) {
	b := newBase(t)
	second := b.other()
	changes := map[string]string{
		`UPDATE connectors SET config = '{"url":"https://example.org"}' WHERE id = $1 RETURNING 1`: `c.status = 'ACTIVE' AND c.state = '{}' AND c.due_reason = 'changed'`,
		`SELECT moves.disable($1)`: `c.status = 'DISABLED' AND c.run_id IS NULL`,
		`SELECT moves.cancel((SELECT id FROM open_runs WHERE connector_id = $1))`: `c.status = 'ACTIVE' AND c.next_sync_at > clock_timestamp()`,
		`DELETE FROM connectors WHERE id = $1 RETURNING 1`:                        ``,
	}
	for change, after := range changes {
		for _, first := range []string{"the completion", "the change"} {
			id := b.synced()
			run := b.syncing(id).Run
			b.whole(run, 1, `{"cursor":2}`)
			sql := change
			if !strings.HasPrefix(sql, "SELECT") {
				sql = `WITH w AS (` + sql + `) SELECT count(*) FROM w`
			}
			verdict := "superseded"
			b.exec(`BEGIN`)
			if first == "the completion" {
				verdict = "completed"
				b.moves("completed", `SELECT verdict FROM moves.complete($1)`, run)
				answer := second.waitsPlain(sql, id)
				b.exec(`COMMIT`)
				if err := answer(); err != nil {
					t.Errorf("%s behind a completion: %v", change, err)
				}
			} else {
				b.exec(sql, id)
				if got := second.asked(`SELECT verdict FROM moves.complete($1)`, run); !strings.Contains(got, "55P03") {
					t.Errorf("a completion beside %s: %s", change, got)
				}
				b.exec(`COMMIT`)
				if got := second.asked(`SELECT verdict FROM moves.complete($1)`, run); got != "nothing" {
					t.Errorf("a completion after %s: %s", change, got)
				}
			}
			if got := one[string](b, `SELECT status FROM runs WHERE id = $1`, run); got != verdict {
				t.Errorf("%s first, %s: the run is %s, want %s", first, change, got, verdict)
			}
			if after != "" {
				b.holds(id, after)
			}
			if n := one[int](b, `SELECT count(*) FROM open_runs WHERE connector_id = $1`, id); n != 0 {
				t.Errorf("%s: %d open runs", change, n)
			}
		}
	}
}

// waitsPlain is waits for a statement whose answer does not matter.
func (b *base) waitsPlain(sql string, args ...any) (answer func() error) {
	b.Helper()
	watcher, pid := b.other(), b.conn.PgConn().PID()
	done := make(chan error, 1)
	go func() { _, err := b.conn.Exec(b.Context(), sql, args...); done <- err }()
	testkit.Eventually(b.T, 10*time.Second, func() error {
		if !one[bool](watcher, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock')`, pid) {
			return fmt.Errorf("it does not wait")
		}
		return nil
	})
	return func() error { return <-done }
}
