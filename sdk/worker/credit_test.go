package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/internal/dbgen"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

const credit = 10

func withCredit(cfg *worker.Config) { cfg.Credit = credit }

// forEver has runs that wait wait for what is stored alone.
func forEver(w *worker.Worker) { w.SetCreditPatience(time.Hour) }

// goesOnSoon has runs that wait soon go on though nothing is stored.
func goesOnSoon(w *worker.Worker) { w.SetCreditPatience(100 * time.Millisecond) }

// sender is a handler that puts n notes, one after another; ended has what it returned.
func sender(n int) (handle worker.Handler, begun chan *worker.Run, ended chan error) {
	begun, ended = make(chan *worker.Run, 32), make(chan error, 32)
	return func(ctx context.Context, run *worker.Run) (err error) {
		begun <- run
		for i := 1; i <= n && err == nil; i++ {
			err = run.Put(ctx, note(i))
		}
		ended <- err
		return err
	}, begun, ended
}

// storesNumbers stands for semantic: it stores numbers of a run.
func (f *fixture) storesNumbers(c trip, from, to int) {
	f.t.Helper()
	f.exec(`INSERT INTO run_messages (try_id, no) SELECT try_id, n FROM open_runs, generate_series($2::int, $3::int) n WHERE id = $1`,
		c.session, from, to)
}

// waitsAt waits until a run waits for credit with so many numbers taken, all in the stream.
func (f *fixture) waitsAt(run *worker.Run, n int) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		if got, held := run.Numbers(), f.held(topology.DocumentStream); got != int64(n) || held != n || !run.ClockStands() {
			return fmt.Errorf("%d numbers are taken, %d messages are in the stream, the clock stands: %v", got, held, run.ClockStands())
		}
		return nil
	})
	f.measures("worker_syncs_waiting", 1)
}

func TestASyncWaitsAtItsCreditAndGoesOnAsItIsStored(t *testing.T) {
	f := newFixture(t)
	handle, begun, _ := sender(35)
	f.workWith(withCredit, handle, forEver)
	c := f.triggered()
	run := await(t, "the run", begun)
	f.waitsAt(run, credit)
	f.storesNumbers(c, 1, 4)
	f.waitsAt(run, 14)
	f.storesNumbers(c, 6, 6) // 5 is delivered again, or was lost: the stream is beyond it
	f.waitsAt(run, 16)
	f.storesNumbers(c, 7, 26)
	f.settled(c)
	f.whole(c, 35)
	f.measures("worker_syncs_waiting", 0)
	f.is(c, `status = 'SYNCING' AND failure_count = 0`)
}

func TestADocumentOfSeveralMessagesIsSentWholeBeyondTheCredit(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	large := note(1) // at most seven such chunks fit into a message
	large.Chunks = slices.Repeat([]chunk.Chunk{{Text: strings.Repeat("x", worker.MaxChunkBytes)}}, 7*(credit+2))
	f.workWith(withCredit, func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, large) }, forEver)
	f.settled(c)
	require.Greater(t, len(f.sent(c)), credit)
}

func TestALongDocumentNeedsTheCreditOfManyShortOnes(t *testing.T) {
	f := newFixture(t)
	long := note(1)
	long.Chunks = slices.Repeat([]chunk.Chunk{{Text: "x"}}, 4*credit)
	begun := make(chan *worker.Run, 1)
	f.workWith(withCredit, func(ctx context.Context, run *worker.Run) error {
		begun <- run
		return errors.Join(run.Put(ctx, long), run.Put(ctx, note(2)))
	}, forEver)
	c := f.triggered()
	f.waitsAt(await(t, "the run", begun), 1)
	f.storesNumbers(c, 1, 1)
	f.settled(c)
	f.whole(c, 2)
}

func TestEverythingThatHasANumberNeedsCredit(t *testing.T) {
	for name, send := range map[string]func(context.Context, *worker.Run) error{
		"a touch":      func(ctx context.Context, run *worker.Run) error { return run.Touch(ctx, note(11)) },
		"a deletion":   func(ctx context.Context, run *worker.Run) error { return run.Delete(ctx, "note/11") },
		"a checkpoint": func(ctx context.Context, run *worker.Run) error { return run.Checkpoint(ctx, page{1}) },
		"seen": func(ctx context.Context, run *worker.Run) error {
			run.BeginListing()
			return run.Seen(ctx, "note/11")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			put, begun, _ := sender(credit)
			f.workWith(withCredit, func(ctx context.Context, run *worker.Run) error {
				return errors.Join(put(ctx, run), send(ctx, run))
			}, forEver)
			c := f.triggered()
			f.waitsAt(await(t, "the run", begun), credit)
			f.storesNumbers(c, 1, credit)
			f.settled(c)
			require.Greater(t, len(f.sent(c)), credit+1)
		})
	}
}

func TestADocumentStandsBehindNoMoreThanTheCreditOfAnother(t *testing.T) {
	f := newFixture(t)
	put, begun, _ := sender(100 * credit)
	large := f.triggered()
	f.workWith(func(cfg *worker.Config) { cfg.Slots = 2; withCredit(cfg) }, func(ctx context.Context, run *worker.Run) error {
		if run.Request().ConnectorId == large.id {
			return put(ctx, run)
		}
		return run.Put(ctx, note(1))
	}, forEver)
	f.waitsAt(await(t, "the large run", begun), credit)
	small := f.triggered()
	f.settled(small)
	f.is(small, fmt.Sprintf(`drain_seq = %d`, credit+2)) // one document, and sync completed
	f.whole(small, 1)
	f.is(large, `status = 'SYNCING' AND drain_seq IS NULL`)
}

func TestAPurgeWhileASyncWaitsStopsItOnce(t *testing.T) {
	f := newFixture(t)
	handle, begun, _ := sender(1000)
	f.workWith(withCredit, handle, goesOnSoon)
	c := f.triggered()
	run := await(t, "the run", begun)
	f.measures("worker_syncs_waiting", 1)
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(ctx))
	f.measures("worker_credit_written_off_total", credit)
	testkit.Eventually(t, soon, func() error {
		if n := run.Numbers(); n < 2*credit {
			return fmt.Errorf("%d numbers are taken", n)
		}
		return nil
	})
	f.says("nothing of what the sync has sent was stored for long")
	f.is(c, `status = 'SYNCING' AND failure_count = 0`)
}

func TestASyncThatWaitsForCreditOutlivesPostgres(t *testing.T) {
	f, server := newPrivateFixture(t)
	handle, begun, _ := sender(2 * credit)
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 600; withCredit(cfg) }, handle, goesOnSoon)
	f.triggered()
	run := await(t, "the run", begun)
	require.NoError(t, server.Stop(ctx))
	testkit.Eventually(t, soon, func() error {
		if !run.Sealed() {
			return fmt.Errorf("%d numbers are taken", run.Numbers())
		}
		return nil
	})
	require.NoError(t, server.Restart(ctx))
}

func TestPostgresAwayWhileASyncWaitsIsAWait(t *testing.T) {
	f, server := newPrivateFixture(t)
	handle, begun, _ := sender(2 * credit)
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 600; withCredit(cfg) }, handle, forEver)
	c := f.triggered()
	run := await(t, "the run", begun)
	f.waitsAt(run, credit)
	require.NoError(t, server.Stop(ctx))
	require.NoError(t, server.Restart(ctx))
	testkit.Eventually(t, soon, func() error { return f.pool.Ping(ctx) })
	f.storesNumbers(c, 1, 1)
	f.waitsAt(run, credit+1)
	f.storesNumbers(c, 2, credit)
	f.settled(c)
	f.whole(c, 2*credit)
	f.is(c, `failure_count = 0`)
}

func TestPostgresTellsAWorkerThatSomethingOfAnybodysIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	require.NoError(t, lifecycle.New(f.pool).PickUp(ctx, c.id, lifecycle.Try{Run: c.session, ID: uuid.New()}, uuid.New(), time.Minute))
	conn, err := f.pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(ctx, `SET ROLE echomind_worker`)
	require.NoError(t, err)
	defer func() { _, _ = conn.Exec(ctx, `RESET ROLE`) }()
	queries := dbgen.New(conn)
	before, err := queries.StoredOfAll(ctx)
	require.NoError(t, err)
	stored := 0
	testkit.Eventually(t, soon, func() error { // a session tells what it has done once a second at most, when it does something
		stored++
		f.storesNumbers(c, stored, stored)
		now, err := queries.StoredOfAll(ctx)
		if err == nil && now == before {
			err = fmt.Errorf("%d messages are stored, and it still says %d", stored, now)
		}
		return err
	})
}

func TestAStopWhileASyncWaitsHandsItBack(t *testing.T) {
	f := newFixture(t)
	handle, begun, ended := sender(2 * credit)
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = time.Millisecond; withCredit(cfg) }, handle, forEver)
	c := f.triggered()
	f.waitsAt(await(t, "the run", begun), credit)
	require.NoError(t, r.stop())
	require.Error(t, <-ended)
	f.is(c, handedBack)
}

func TestTheLeaseIsRenewedWhileASyncWaits(t *testing.T) {
	f := newFixture(t)
	handle, begun, _ := sender(2 * credit)
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3; withCredit(cfg) }, handle, forEver)
	c := f.triggered()
	run := await(t, "the run", begun)
	f.waitsAt(run, credit)
	for range 2 {
		f.becomes(c, `lease_expires_at > '`+f.one(`SELECT max(expires_at)::text FROM workers`)+`'`)
	}
	f.waitsAt(run, credit)
}

func TestTheNextRunBeginsWithItsWholeCreditWhateverTheOneBeforeHasInTheStream(t *testing.T) {
	f := newFixture(t)
	handle, begun, _ := sender(2 * credit)
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = time.Millisecond; withCredit(cfg) }, handle, forEver)
	c := f.triggered()
	f.waitsAt(await(t, "the run", begun), credit)
	require.NoError(t, r.stop())
	c.session = movestest.Claim(t, f.pool, c.id)
	f.publish(c)
	f.workWith(withCredit, handle, forEver)
	next := await(t, "the next run", begun)
	testkit.Eventually(t, soon, func() error {
		if held := f.held(topology.DocumentStream); held != 2*credit || !next.ClockStands() {
			return fmt.Errorf("%d numbers are taken, %d messages of both runs are in the stream", next.Numbers(), held)
		}
		return nil
	})
	f.storesNumbers(c, 1, credit)
	f.settled(c)
	f.whole(c, 2*credit)
}

func TestASyncIsFencedWhileItWaits(t *testing.T) {
	f := newFixture(t)
	handle, begun, ended := sender(2 * credit)
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3; withCredit(cfg) }, handle, forEver)
	c := f.triggered()
	f.waitsAt(await(t, "the run", begun), credit)
	c = f.rescued(c)
	before := f.everything(c)
	require.ErrorIs(t, await(t, "the end of the handler", ended), lifecycle.ErrFenced)
	f.measures("worker_slots_busy", 0)
	require.Equal(t, before, f.everything(c))
}

func TestASyncThatTakesTooLongWhileItWaitsIsCut(t *testing.T) {
	f := newFixture(t)
	handle, begun, _ := sender(2 * credit)
	f.workWith(withCredit, handle, forEver)
	c := f.triggered()
	run := await(t, "the run", begun)
	f.waitsAt(run, credit)
	run.TakesTooLong()
	require.Equal(t, credit, f.isCut(c))
}

func TestAHandlerThatReturnsWhileItsGoroutineWaitsCompletesWithoutIt(t *testing.T) {
	f := newFixture(t)
	put, begun, ended := sender(credit + 1)
	goOn := make(chan struct{})
	f.workWith(withCredit, func(_ context.Context, run *worker.Run) error {
		go func() { _ = put(ctx, run) }() // whose context does not end with the run
		<-goOn
		return nil
	}, forEver)
	c := f.triggered()
	f.waitsAt(await(t, "the run", begun), credit)
	close(goOn)
	require.ErrorContains(t, await(t, "the end of the goroutine", ended), "the handler has returned")
	f.settled(c)
	f.whole(c, credit)
}

func TestACallWhoseOwnContextEndsWhileItWaitsFailsTheSync(t *testing.T) {
	f := newFixture(t)
	put, begun, _ := sender(credit + 1)
	own, cancel := context.WithCancel(ctx)
	f.workWith(withCredit, func(_ context.Context, run *worker.Run) error {
		_ = put(own, run)
		return nil
	}, forEver)
	c := f.triggered()
	f.waitsAt(await(t, "the run", begun), credit)
	cancel()
	f.settled(c)
	f.is(c, `status = 'ERROR' AND status_message LIKE '%wait until more of the sync is stored%'`)
}

func TestOneQuestionAtATimeIsAskedForAllSyncsThatWait(t *testing.T) {
	const runs = 20
	f := newFixture(t)
	var mu sync.Mutex
	asking, most, all := 0, 0, make(chan struct{})
	once := sync.OnceFunc(func() { close(all) })
	handle, _, ended := sender(2 * credit)
	r := f.workWith(func(cfg *worker.Config) { cfg.Slots = runs; withCredit(cfg) }, handle, forEver, func(w *worker.Worker) {
		w.WatchCredit(func(tries int) func() {
			mu.Lock()
			defer mu.Unlock()
			asking++
			most = max(most, asking)
			if tries == runs {
				once()
			}
			return func() { mu.Lock(); defer mu.Unlock(); asking-- }
		})
	})
	trips := make([]trip, runs)
	for i := range trips {
		trips[i] = f.triggered()
	}
	await(t, "a question for all", all)
	for _, c := range trips {
		f.storesNumbers(c, 1, 2*credit)
	}
	for range trips {
		require.NoError(t, await(t, "the end of a run", ended))
	}
	require.NoError(t, r.stop())
	require.Equal(t, 1, most)
}

func TestNothingIsAskedForASyncThatStaysWithinItsCredit(t *testing.T) {
	f := newFixture(t)
	asked := make(chan int, 1)
	handle, _, _ := sender(credit)
	r := f.workWith(withCredit, handle, func(w *worker.Worker) {
		w.WatchCredit(func(tries int) func() { asked <- tries; return func() {} })
	})
	c := f.triggered()
	f.settled(c)
	f.whole(c, credit)
	require.NoError(t, r.stop())
	require.Empty(t, asked)
}
