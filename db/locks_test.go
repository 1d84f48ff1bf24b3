package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/sdk/lifecycle"
)

const gpu = "ollama:global"

// acquire asks for a lock once; 0 where it is not given.
func (b *base) acquire(try lifecycle.Try, key string) int64 {
	b.Helper()
	return one[int64](b, `SELECT coalesce(max(epoch), 0) FROM moves.acquire_lock($1, $2, $3, '10 minutes')`, try.Run, try.ID, key)
}

// waitFor asks for a lock and waits for it; 0 where it is not given yet.
func (b *base) waitFor(try lifecycle.Try, key string) int64 {
	b.Helper()
	return one[int64](b, `SELECT coalesce(max(epoch), 0) FROM moves.acquire_lock($1, $2, $3, '10 minutes', true)`, try.Run, try.ID, key)
}

// renew says what a renewal answers.
func (b *base) renew(try lifecycle.Try, key string, epoch int64) string {
	b.Helper()
	return one[string](b, `SELECT coalesce(why, 'renewed ' || (expires_at > clock_timestamp() + interval '9 minutes'))
		FROM moves.renew_lock($1, $2, $3, $4)`, try.Run, try.ID, key, epoch)
}

// at is a fresh connector whose run is at work.
func (b *base) at() (int32, lifecycle.Try) {
	b.Helper()
	id := b.synced()
	return id, b.syncing(id)
}

// runsOut makes a lock one that was not renewed in time.
func (b *base) runsOut(key string) {
	b.Helper()
	b.exec(`UPDATE resource_locks SET expires_at = clock_timestamp() - interval '1 ms' WHERE key = $1`, key)
}

func (b *base) count(table string) int {
	b.Helper()
	return one[int](b, `SELECT count(*) FROM `+table)
}

func TestALockIsGivenToOneRunAtATimeAndItsEpochGrows(t *testing.T) {
	b := newBase(t)
	id, first := b.at()
	_, second := b.at()
	epoch := b.acquire(first, gpu)
	if epoch == 0 {
		t.Fatal("a free lock is not given")
	}
	if again := b.acquire(first, gpu); again != epoch {
		t.Errorf("asked again after a lost answer it is epoch %d, was %d", again, epoch)
	}
	b.moves(fmt.Sprint(first.Run, " ", id, " true 0"), `SELECT concat_ws(' ', holder_run, holder_connector, (remaining BETWEEN '9 minutes' AND '10 minutes')::text, ahead)
		FROM moves.acquire_lock($1, $2, $3, '1 second')`, second.Run, second.ID, gpu)
	if other := b.acquire(second, "other"); other <= epoch {
		t.Errorf("another key has epoch %d after %d", other, epoch)
	}
	b.moves("true", `SELECT moves.free_locks($1, $2, $3, $4)`, first.Run, first.ID, gpu, epoch)
	b.moves("false", `SELECT moves.free_locks($1, $2, $3, $4)`, first.Run, first.ID, gpu, epoch)
	next := b.acquire(second, gpu)
	if next <= epoch {
		t.Errorf("epoch %d after %d", next, epoch)
	}
	b.moves("false", `SELECT moves.free_locks($1, $2)`, first.Run, first.ID)
	if got := b.renew(second, gpu, next); got != "renewed true" {
		t.Error(got)
	}
}

// Who had no answer to a question gives back what it may have been given, and Postgres may be told of that late.
func TestALateEndOfAQuestionFreesNothingThatALaterOneWasGiven(t *testing.T) {
	b := newBase(t)
	_, try := b.at()
	const ask, end = `SELECT epoch > 0 FROM moves.acquire_lock($1, $2, $3, '1 minute', false, $4)`, `SELECT moves.free_locks($1, $2, $3, NULL, $4)`
	b.moves("true", ask, try.Run, try.ID, gpu, 2)
	b.moves("false", end, try.Run, try.ID, gpu, 1)
	b.moves("true", ask, try.Run, try.ID, gpu, 3) // it has it already
	b.moves("false", end, try.Run, try.ID, gpu, 2)
	b.moves("true", end, try.Run, try.ID, gpu, 3)
}

func TestAQuestionThatWasGivenUpIsGivenNothingLater(t *testing.T) {
	b := newBase(t)
	_, try := b.at()
	const ask, end = `SELECT count(epoch) FROM moves.acquire_lock($1, $2, $3, '1 minute', $5, $4)`, `SELECT moves.free_locks($1, $2, $3, NULL, $4)`
	for i := range 120 {
		b.moves("false", end, try.Run, try.ID, gpu, i+2)
	}
	b.moves("0", ask, try.Run, try.ID, gpu, 121, false)
	b.moves("0", ask, try.Run, try.ID, gpu, 22, true)
	if b.count("resource_locks")+b.count("lock_waiters") != 0 {
		t.Error("a question that was given up has a lock, or waits for it")
	}
	b.moves("100", `SELECT cardinality(freed_asks) FROM open_runs WHERE id = $1`, try.Run)
	b.moves("1", ask, try.Run, try.ID, gpu, 1, false) // it asks for another key, and goes on
	b.moves("true", end, try.Run, try.ID, gpu, 122)
	b.moves("1", ask, try.Run, try.ID, gpu, 0, false) // not numbered
	b.moves("true", end, try.Run, try.ID, gpu, 0)
	b.moves("1", ask, try.Run, try.ID, gpu, 0, false)
}

func TestALateQuestionShortensNoLockThatALaterOneWasGiven(t *testing.T) {
	b := newBase(t)
	_, try := b.at()
	const ask = `SELECT epoch > 0 FROM moves.acquire_lock($1, $2, $3, $5, false, $4)`
	lasts := func(want string) {
		t.Helper()
		b.moves(want, `SELECT ttl || ' ' || (expires_at > clock_timestamp() + ttl - interval '30 seconds') FROM resource_locks WHERE key = $1`, gpu)
	}
	b.moves("true", ask, try.Run, try.ID, gpu, 2, "10 minutes")
	b.moves("true", ask, try.Run, try.ID, gpu, 1, "1 second")
	lasts("00:10:00 true")
	b.moves("true", ask, try.Run, try.ID, gpu, 3, "5 minutes")
	lasts("00:05:00 true")
}

// A standby, or a backup, has not got the last of them.
func TestEpochsGrowThoughTheSequenceHasForgottenThem(t *testing.T) {
	b := newBase(t)
	_, try := b.at()
	epoch := b.acquire(try, gpu)
	b.exec(`TRUNCATE resource_locks`)
	b.exec(`SELECT setval('lock_epochs', 1)`)
	if next := b.acquire(try, gpu); next <= epoch {
		t.Errorf("epoch %d after %d", next, epoch)
	}
}

func TestALockThatRanOutIsRenewedUntilAnotherHasIt(t *testing.T) {
	b := newBase(t)
	_, first := b.at()
	id, second := b.at()
	epoch := b.acquire(first, gpu)
	b.runsOut(gpu)
	if got := b.renew(first, gpu, epoch); got != "renewed true" {
		t.Error(got)
	}
	b.runsOut(gpu)
	if next := b.acquire(second, gpu); next <= epoch {
		t.Errorf("epoch %d after %d", next, epoch)
	}
	if got, want := b.renew(first, gpu, epoch), fmt.Sprintf("it was not renewed in time, and run %s of connector %d has it", second.Run, id); got != want {
		t.Error(got)
	}
}

// By each of these a worker ends its run, or its part of it.
var endsOfLocks = map[string]string{
	"released":   `SELECT moves.release(id, try_id) FROM open_runs WHERE id = $1`,
	"postponed":  `SELECT moves.postpone(id, try_id, '1 hour', 'wait') FROM open_runs WHERE id = $1`,
	"skipped":    `SELECT moves.skip(id, try_id, NULL, NULL, 0) FROM open_runs WHERE id = $1`,
	"finished":   `SELECT moves.finish(id, try_id) FROM open_runs WHERE id = $1`,
	"draining":   `SELECT moves.drain(id, try_id, 7) FROM open_runs WHERE id = $1`,
	"cut":        `SELECT moves.cut(id, try_id, 1, 7, 'slow') FROM open_runs WHERE id = $1`,
	"completed":  `WITH whole AS (UPDATE open_runs SET total = 0, whole = true WHERE id = $1) SELECT 1`,
	"given back": `SELECT moves.free_locks(id, try_id) FROM open_runs WHERE id = $1`,
}

func TestAWorkerThatEndsItsRunFreesItsLocksAndItsPlacesAtOnce(t *testing.T) {
	for how, end := range endsOfLocks {
		t.Run(how, func(t *testing.T) {
			b := newBase(t)
			_, held := b.at()
			b.acquire(held, "other")
			_, try := b.at()
			b.acquire(try, gpu)
			b.acquire(try, "gpu:2")
			if b.waitFor(try, "other") != 0 {
				t.Fatal("two have a lock")
			}
			b.exec(end, try.Run)
			if how == "completed" {
				b.moves("completed", `SELECT CASE WHEN verdict IN ('completed', 'skipped') THEN 'completed' END FROM moves.complete($1)`, try.Run)
			}
			if got := one[string](b, `SELECT concat((SELECT string_agg(key, ' ') FROM resource_locks), ';', (SELECT count(*) FROM lock_waiters))`); got != "other;0" {
				t.Errorf("left: %s", got)
			}
			if got := b.renew(try, gpu, 1); how != "given back" && got != "the run is over" {
				t.Errorf("a renewal says %q", got)
			}
			if epoch := b.acquire(try, gpu); (epoch != 0) != (how == "given back") {
				t.Errorf("then it is given epoch %d", epoch)
			}
		})
	}
}

// By each of these somebody else ends a run, whose worker may be at work.
var endsFromOutside = map[string]string{
	"failed":    `SELECT moves.fail(id, try_id, 'transient', 'semantic has given up a document') FROM open_runs WHERE id = $1`,
	"disabled":  `SELECT moves.disable(connector_id) FROM open_runs WHERE id = $1`,
	"changed":   `UPDATE connectors SET config = '{"a": 2}' WHERE run_id = $1`,
	"deleted":   `DELETE FROM connectors WHERE run_id = $1`,
	"cancelled": `SELECT moves.cancel(id) FROM open_runs WHERE id = $1`,
	"rescued":   `UPDATE workers SET expires_at = now() - interval '1 s' WHERE id = (SELECT worker_id FROM open_runs WHERE id = $1)`,
}

func TestARunThatIsEndedFromOutsideKeepsItsLocksUntilItsWorkerKnowsItOrTheirTimeIsOver(t *testing.T) {
	for how, end := range endsFromOutside {
		t.Run(how, func(t *testing.T) {
			b := newBase(t)
			_, waits := b.at()
			_, try := b.at()
			epoch, other := b.acquire(try, gpu), b.acquire(try, "gpu:2")
			b.waitFor(waits, gpu)
			b.exec(end, try.Run)
			if how == "rescued" {
				b.moves("1", `SELECT count(*) FROM moves.rescue(`+silent+`, '1 hour', 10)`)
			}
			if got := b.waitFor(waits, gpu); got != 0 {
				t.Fatalf("another has it in epoch %d after %d", got, epoch)
			}
			if got := b.renew(try, gpu, epoch); got != "the run is over" {
				t.Errorf("a renewal says %q", got)
			}
			b.moves("false", `SELECT moves.free_locks($1, gen_random_uuid())`, try.Run)
			b.moves("true", `SELECT moves.free_locks($1, $2, $3, $4)`, try.Run, try.ID, gpu, epoch)
			if got := b.waitFor(waits, gpu); got <= epoch {
				t.Errorf("once its worker knows it it is given in epoch %d after %d", got, epoch)
			}
			b.runsOut("gpu:2")
			if got := b.acquire(waits, "gpu:2"); got <= other {
				t.Errorf("when its time is over it is given in epoch %d after %d", got, other)
			}
		})
	}
}

func TestLocksThatNobodyAsksForAreForgottenAnHourAfterTheirTime(t *testing.T) {
	b := newBase(t)
	id, try := b.at()
	b.acquire(try, gpu)
	b.exec(`SELECT moves.disable($1)`, id)
	b.runsOut(gpu)
	b.exec(`SELECT moves.forget_workers(10)`)
	if b.count("resource_locks") != 1 {
		t.Error("it is forgotten at once")
	}
	b.exec(`UPDATE resource_locks SET expires_at = clock_timestamp() - interval '61 minutes'`)
	b.exec(`SELECT moves.forget_workers(10)`)
	if b.count("resource_locks") != 0 {
		t.Error("it is not forgotten")
	}
}

func TestALockIsForTheTryThatHasTheRun(t *testing.T) {
	b := newBase(t)
	_, try := b.at()
	other := lifecycle.Try{Run: try.Run, ID: uuid.New()}
	if b.acquire(other, gpu) != 0 || b.waitFor(other, gpu) != 0 || b.count("resource_locks")+b.count("lock_waiters") != 0 {
		t.Error("another try has it")
	}
	epoch := b.acquire(try, gpu)
	if got := b.renew(other, gpu, epoch); got != "the run is over" {
		t.Error(got)
	}
	b.moves("false", `SELECT moves.free_locks($1, $2)`, other.Run, other.ID)
	b.moves("false", `SELECT moves.note_provider($1, $2, 'ollama', NULL, NULL, '[]')`, other.Run, other.ID)
	if got := b.renew(try, gpu, epoch); got != "renewed true" {
		t.Error(got)
	}
}

func TestWhoHasWaitedLongestIsNextAndNobodyPassesIt(t *testing.T) {
	b := newBase(t)
	_, holder := b.at()
	var row []lifecycle.Try
	b.acquire(holder, gpu)
	for i := range 3 {
		_, try := b.at()
		row = append(row, try)
		if b.waitFor(try, gpu) != 0 {
			t.Fatal("two have a lock")
		}
		b.moves(fmt.Sprint(i, " ", 0.25*float64(i+1)), `SELECT concat(ahead, ' ', extract(epoch FROM ask_again)::float8) FROM moves.acquire_lock($1, $2, $3, '1 s', true)`,
			try.Run, try.ID, gpu)
	}
	b.exec(`SELECT moves.free_locks($1, $2)`, holder.Run, holder.ID)
	if b.acquire(holder, gpu) != 0 || b.waitFor(row[1], gpu) != 0 || b.waitFor(row[2], gpu) != 0 {
		t.Error("somebody has passed the first")
	}
	if b.waitFor(row[0], gpu) == 0 {
		t.Error("the first has it not")
	}
	b.exec(`SELECT moves.free_locks($1, $2)`, row[0].Run, row[0].ID)
	b.exec(`UPDATE lock_waiters SET expires_at = clock_timestamp() WHERE run_id = $1`, row[1].Run) // it asks no more
	if b.waitFor(row[2], gpu) == 0 || b.count("lock_waiters") != 0 {
		t.Error("who asks no more keeps its place")
	}
}

func TestWhoWaitsIsSeenToWait(t *testing.T) {
	b := newBase(t)
	held, holder := b.at()
	b.acquire(holder, gpu)
	id, try := b.at()
	b.waitFor(try, gpu)
	b.moves(fmt.Sprint(gpu, " ", holder.Run, " ", held, " true true"), `SELECT concat_ws(' ', lock_key, lock_run_id, lock_connector_id,
		(lock_expires_at > clock_timestamp() + interval '9 minutes')::text, (lock_asked_at < clock_timestamp())::text) FROM connector_evidence WHERE id = $1`, id)
	b.moves(`nothing`, `SELECT lock_key FROM connector_evidence WHERE id = $1`, held)
	b.exec(`UPDATE lock_waiters SET expires_at = clock_timestamp()`)
	b.moves(`nothing`, `SELECT lock_key FROM connector_evidence WHERE id = $1`, id)
}

func TestALockThatAPersonReleasesIsAnothersOnceItsHolderHasBeenToldByWhom(t *testing.T) {
	b := newBase(t)
	id, try := b.at()
	epoch := b.acquire(try, gpu)
	b.moves("nothing", `SELECT run_id FROM moves.release_lock($1, $2, 'ann')`, gpu, epoch+1)
	b.moves(fmt.Sprint(try.Run, " ", id, " ", epoch), `SELECT concat_ws(' ', run_id, connector_id, epoch) FROM moves.release_lock($1, $2, 'ann')`, gpu, epoch)
	b.moves("nothing", `SELECT run_id FROM moves.release_lock($1, NULL, 'bob')`, gpu)
	if got := b.renew(try, gpu, epoch); got != "it was released by ann" {
		t.Error(got)
	}
	_, next := b.at()
	if b.acquire(next, gpu) != 0 || b.acquire(try, gpu) != 0 {
		t.Error("it is given while its holder may not know it")
	}
	b.moves("true", `SELECT moves.free_locks($1, $2, $3, $4)`, try.Run, try.ID, gpu, epoch)
	if grown := b.acquire(next, gpu); grown <= epoch {
		t.Errorf("epoch %d after %d", grown, epoch)
	}
	if got := b.renew(try, gpu, epoch); got != "it was released by ann" {
		t.Error(got)
	}
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
	b.holds(id, fmt.Sprintf(`r.resources->0->>'released' = '%s' AND (r.resources->0->>'epoch')::bigint = %d AND r.resources->0->>'by' = 'ann'
		AND (r.resources->0->>'at')::timestamptz < clock_timestamp() AND jsonb_array_length(r.resources) = 1`, gpu, epoch))
}

func TestTheLedgerKeepsTheLastProvidersOfARun(t *testing.T) {
	b := newBase(t)
	id, try := b.at()
	for i := range 12 {
		b.moves("true", `SELECT moves.note_provider($1, $2, $3, $4, $5, '[{"provider": "ollama", "why": "429"}]')`, try.Run, try.ID, fmt.Sprint("p", i), gpu, i)
	}
	b.moves("true", `SELECT moves.skip($1, $2, NULL, NULL, 0)`, try.Run, try.ID)
	b.holds(id, `jsonb_array_length(r.resources) = 10 AND r.resources->0->>'provider' = 'p2' AND r.resources->9->>'provider' = 'p11'
		AND r.resources->9->'passed_over'->0->>'why' = '429' AND r.resources->9->>'lock' = 'ollama:global' AND r.resources->9->'epoch' = '11'`)
}

func TestWhatNoLockMayBeIsRefused(t *testing.T) {
	b := newBase(t)
	_, try := b.at()
	for _, wrong := range []struct{ key, ttl string }{
		{"", "1 minute"}, {"a b", "1 minute"}, {"-a", "1 minute"}, {"ä", "1 minute"}, {"a\n", "1 minute"}, {strings.Repeat("a", 129), "1 minute"},
		{"ollama:http://bob:hunter2@gpu.example:11434/", "1 minute"}, {"http://token@gpu.example", "1 minute"},
		{"a", "0.9 seconds"}, {"a", "61 minutes"}, {"a", "-1 minute"},
	} {
		_, err := b.conn.Exec(t.Context(), `SELECT * FROM moves.acquire_lock($1, $2, $3, $4::interval)`, try.Run, try.ID, wrong.key, wrong.ttl)
		if sqlState(err) != "22023" {
			t.Errorf("%q for %s: %v", wrong.key, wrong.ttl, err)
		}
	}
	for i := range 16 {
		if b.acquire(try, fmt.Sprint("k", i)) == 0 {
			t.Fatal("no lock")
		}
	}
	_, err := b.conn.Exec(t.Context(), `SELECT * FROM moves.acquire_lock($1, $2, 'k16', '1 s')`, try.Run, try.ID)
	if sqlState(err) != "54000" {
		t.Errorf("the 17th: %v", err)
	}
	if b.acquire(try, "k3") == 0 {
		t.Error("one that it has is refused")
	}
	for _, provider := range []string{"", strings.Repeat("a", 65), "a\x01"} {
		if _, err := b.conn.Exec(t.Context(), `SELECT moves.note_provider($1, $2, $3, NULL, NULL, '[]')`, try.Run, try.ID, provider); sqlState(err) != "22023" {
			t.Errorf("provider %q: %v", provider, err)
		}
	}
	for lock, epoch := range map[string]int64{"a b": 1, strings.Repeat("a", 129): 1, "http://bob:hunter2@gpu.example": 1, gpu: -1} {
		if _, err := b.conn.Exec(t.Context(), `SELECT moves.note_provider($1, $2, 'p', $3, $4, '[]')`, try.Run, try.ID, lock, epoch); sqlState(err) != "22023" {
			t.Errorf("lock %.10q, epoch %d: %v", lock, epoch, err)
		}
	}
	for _, passed := range []string{`{}`, `["` + strings.Repeat("a", 5000) + `"]`, `["x"]`, `[{"provider": "p"}]`, `[{"provider": "p", "why": {}}]`, `[{"provider": 1, "why": "x"}]`} {
		if _, err := b.conn.Exec(t.Context(), `SELECT moves.note_provider($1, $2, 'p', NULL, NULL, $3)`, try.Run, try.ID, passed); sqlState(err) != "22023" {
			t.Errorf("passed over %.10s: %v", passed, err)
		}
	}
}

// Many runs take turns with one key, each in a session of its own; some of them end with it, some leave it to run out.
func TestNoTwoRunsHoldALockInOneEpochWhoeverIsInWhoseWay(t *testing.T) {
	b := newBase(t)
	const runs, each = 6, 15
	var mu sync.Mutex
	seen := map[int64]uuid.UUID{}
	var highest int64
	var all sync.WaitGroup
	for range runs {
		_, try := b.at()
		conn, err := pgx.Connect(t.Context(), b.url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		all.Go(func() {
			for got := 0; got < each; {
				var epoch *int64
				err := conn.QueryRow(t.Context(), `SELECT epoch FROM moves.acquire_lock($1, $2, $3, '1 hour', true)`, try.Run, try.ID, gpu).Scan(&epoch)
				if err != nil {
					t.Error(err)
					return
				}
				if epoch == nil {
					continue
				}
				mu.Lock()
				// Who asks for one of its own that has run out has it once more.
				if holder, twice := seen[*epoch]; *epoch < highest || twice && holder != try.Run {
					t.Errorf("epoch %d is given after %d, to %s after %s", *epoch, highest, try.Run, holder)
				}
				seen[*epoch], highest = try.Run, *epoch
				mu.Unlock()
				got++
				if got%3 == 0 {
					_, err = conn.Exec(t.Context(), `UPDATE resource_locks SET expires_at = clock_timestamp() WHERE key = $1 AND epoch = $2`, gpu, *epoch)
				} else {
					_, err = conn.Exec(t.Context(), `SELECT moves.free_locks($1, $2, $3, $4)`, try.Run, try.ID, gpu, *epoch)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if len(seen) < runs*each*2/3 {
		t.Errorf("it had %d epochs", len(seen))
	}
}

// A move that ends many runs holds their locks' rows, and may want the run of who asks for one of them.
func TestWhoAsksForALockWaitsForNobodyWhoEndsRuns(t *testing.T) {
	b := newBase(t)
	_, ends := b.at()
	b.acquire(ends, gpu)
	_, asks := b.at()
	other := connectTo(t, b.url)
	tx, err := other.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SELECT moves.release($1, $2)`, ends.Run, ends.ID); err != nil {
		t.Fatal(err)
	}
	b.exec(`SET statement_timeout = '5 s'`)
	if b.waitFor(asks, gpu) != 0 {
		t.Error("it is given while its holder has not ended")
	}
	if _, err := b.conn.Exec(t.Context(), `SELECT moves.free_locks($1, $2)`, ends.Run, ends.ID); sqlState(err) != "55P03" {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.waitFor(asks, gpu) == 0 {
		t.Error("it is not given then")
	}
}

func TestALockWhoseTimeIsOverIsGivenThoughWhoEndedItsRunHasNotCommitted(t *testing.T) {
	b := newBase(t)
	id, ends := b.at()
	epoch := b.acquire(ends, gpu)
	_, asks := b.at()
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT moves.disable($1)`, id)
	if got := b.renew(ends, gpu, epoch); got != "renewed true" {
		t.Errorf("a renewal says %q", got)
	}
	b.runsOut(gpu)
	if got := b.acquire(asks, gpu); got <= epoch {
		t.Errorf("it is given in epoch %d after %d", got, epoch)
	}
}

// Of one whose row somebody holds: others do not come first.
func TestWhoHoldsALockBackIsNamed(t *testing.T) {
	b := newBase(t)
	id, ends := b.at()
	b.acquire(ends, gpu)
	_, asks := b.at()
	b.runsOut(gpu)
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT moves.finish($1, $2)`, ends.Run, ends.ID)
	b.moves(fmt.Sprint(ends.Run, " ", id, " 00:00:00 0"), `SELECT concat_ws(' ', holder_run, holder_connector, remaining, ahead)
		FROM moves.acquire_lock($1, $2, $3, '1 second')`, asks.Run, asks.ID, gpu)
}

// A hundred thousand runs in flight, and a thousand who wait, on statistics of a quiet time.
func TestLocksReadAFewDozenBuffersWhoeverHoldsAndWaits(t *testing.T) {
	b := newBase(t)
	_, holder := b.at()
	b.acquire(holder, gpu)
	_, try := b.at()
	b.waitFor(try, gpu)
	b.exec(`ANALYZE`)
	b.exec(`INSERT INTO resource_locks SELECT 'key:' || n, nextval('lock_epochs'), gen_random_uuid(), n, '1 hour', now(), now() + interval '1 hour', gen_random_uuid(), NULL, 0 FROM generate_series(1, 20000) n`)
	b.exec(`INSERT INTO lock_waiters (key, run_id, connector_id, since, expires_at)
		SELECT CASE n % 2 WHEN 0 THEN 'key:' || n ELSE $1 END, gen_random_uuid(), n, now(), now() + interval '1 hour' FROM generate_series(1, 2000) n`, gpu)
	w := b.watched()
	ask := func(sql string, args ...any) {
		t.Helper()
		if _, err := w.conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	_, late := b.at()
	_, ended := b.at() // plans what follows from a failure
	ask(`SELECT moves.fail($1, $2, 'transient', 'no')`, ended.Run, ended.ID)
	w.on = true
	for range 20 {
		ask(`SELECT * FROM moves.acquire_lock($1, $2, $3, '1 hour', true)`, late.Run, late.ID, gpu)
		ask(`SELECT * FROM moves.acquire_lock($1, $2, $3, '1 hour', true)`, try.Run, try.ID, gpu)
		ask(`SELECT * FROM moves.acquire_lock($1, $2, 'free', '1 hour')`, try.Run, try.ID)
		ask(`SELECT * FROM moves.renew_lock($1, $2, 'free', (SELECT epoch FROM resource_locks WHERE key = 'free'))`, try.Run, try.ID)
		ask(`SELECT moves.free_locks($1, $2, 'free')`, try.Run, try.ID)
	}
	ask(`SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
	w.on = false
	w.judge(t)
}

// Else one row that somebody holds would keep the renewals of a process's other locks from being asked.
func TestARenewalOfALockThatSomebodyHoldsIsRefused(t *testing.T) {
	b := newBase(t)
	_, try := b.at()
	epoch := b.acquire(try, gpu)
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT FROM resource_locks FOR UPDATE`)
	_, err := b.conn.Exec(t.Context(), `SELECT moves.renew_lock($1, $2, $3, $4)`, try.Run, try.ID, gpu, epoch)
	if sqlState(err) != "55P03" || !strings.Contains(err.Error(), "could not obtain lock on row") {
		t.Errorf("it has waited: %v", err)
	}
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
