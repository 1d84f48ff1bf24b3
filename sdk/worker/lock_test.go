package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

const gpu = "ollama:global"

// brief is soon told to have been released, and outlives a machine that is busy for seconds.
const brief = 6 * time.Second

// holder is a run of another worker that has the lock, until it is told to free it.
type holder struct {
	trip
	lock *worker.Lock
	free func()
}

// holds has a run of another worker take a lock.
func (f *fixture) holds(key string, ttl time.Duration) holder {
	f.t.Helper()
	locks, free := make(chan *worker.Lock, 1), make(chan struct{})
	c := f.triggered()
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, key, ttl)
		if err != nil {
			return err
		}
		locks <- lock
		select {
		case <-free:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	return holder{trip: c, lock: await(f.t, "the lock", locks), free: func() {
		close(free)
		f.settled(c)
		require.NoError(f.t, r.stop())
	}}
}

func (f *fixture) locks() string {
	return f.one(`SELECT concat((SELECT count(*) FROM resource_locks), ' held, ', (SELECT count(*) FROM lock_waiters), ' wait')`)
}

// locked waits until so many are held and so many wait.
func (f *fixture) locked(want string) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		if got := f.locks(); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
}

func TestALockIsOneRunsAndWhoIsNotGivenItIsPutOff(t *testing.T) {
	f := newFixture(t)
	held := f.holds(gpu, 5*time.Minute)
	require.Equal(t, held.session, held.lock.Holder().Run)
	require.Equal(t, gpu, held.lock.Key())
	require.Positive(t, held.lock.Epoch())
	require.Equal(t, "true", f.one(`SELECT (expires_at = $1 AND run_id = $2)::text FROM resource_locks`, held.lock.ExpiresAt(), held.session))

	refused := make(chan error, 1)
	c := f.triggered()
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		_, err := run.Acquire(ctx, gpu, time.Minute)
		refused <- err
		return fmt.Errorf("embed: %w", err)
	})
	var who *worker.LockedError
	require.ErrorAs(t, await(t, "the refusal", refused), &who)
	require.ErrorIs(t, who, worker.ErrLocked)
	require.Equal(t, held.id, who.Connector)
	require.Equal(t, fmt.Sprintf("%s is locked by run %s of connector %d for another 5 min", gpu, held.session, held.id), who.Error())
	f.settled(c)
	f.is(c, fmt.Sprintf(`status = 'ACTIVE' AND due_reason = 'wait' AND failure_count = 0 AND status_message = 'connector %d has lock %s'
		AND next_sync_at BETWEEN clock_timestamp() + interval '4 minutes' AND clock_timestamp() + interval '5 minutes'`, held.id, gpu))
	require.NoError(t, r.stop())
	held.free()
	require.Equal(t, "0 held, 0 wait", f.locks())
}

func TestWhoWaitsHasTheLockWhenItIsFreeAndIsSeenToWait(t *testing.T) {
	f := newFixture(t)
	held := f.holds(gpu, 5*time.Minute)
	locks := make(chan *worker.Lock, 1)
	stands := make(chan bool, 1)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, time.Minute, worker.WaitUpTo(time.Hour))
		if err == nil {
			stands <- run.ClockStands()
			locks <- lock
		}
		return err
	})
	f.locked("1 held, 1 wait")
	require.Equal(t, fmt.Sprint(gpu, " ", held.id), f.one(`SELECT lock_key || ' ' || lock_connector_id FROM connector_evidence WHERE id = $1`, c.id))
	held.free()
	lock := await(t, "the lock", locks)
	require.Greater(t, lock.Epoch(), held.lock.Epoch())
	require.False(t, await(t, "the clock", stands))
	f.settled(c)
	f.is(c, `status = 'ACTIVE' AND verdict = 'skipped'`)
	require.Equal(t, "0 held, 0 wait", f.locks())
}

func TestAWaitForALockThatIsOverIsRefusedAndGivesItsPlaceBack(t *testing.T) {
	f := newFixture(t)
	held := f.holds(gpu, 5*time.Minute)
	left := make(chan string, 1)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		_, err := run.Acquire(ctx, gpu, time.Minute, worker.WaitUpTo(300*time.Millisecond))
		left <- f.locks()
		return err
	})
	require.Equal(t, "1 held, 0 wait", await(t, "the refusal", left))
	f.settled(c)
	f.is(c, `status = 'ACTIVE' AND due_reason = 'wait'`)
	held.free()
}

func TestALockIsRenewedAsLongAsItIsHeld(t *testing.T) {
	f := newFixture(t)
	held := f.holds(gpu, brief)
	first := held.lock.ExpiresAt()
	testkit.Eventually(t, soon, func() error {
		if now := held.lock.ExpiresAt(); now.Sub(first) < brief {
			return fmt.Errorf("it ends at %s, ended at %s first", now, first)
		}
		return nil
	})
	require.NoError(t, held.lock.Context().Err())
	held.free()
}

func TestALockThatAPersonReleasesEndsWhatIsDoneUnderIt(t *testing.T) {
	f := newFixture(t)
	lost := make(chan error, 1)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, brief)
		if err != nil {
			return err
		}
		f.exec(`SELECT moves.release_lock($1, $2, 'ann')`, gpu, lock.Epoch())
		<-lock.Context().Done()
		lost <- context.Cause(lock.Context())
		again, err := run.Acquire(ctx, gpu, brief)
		if err == nil && again.Epoch() <= lock.Epoch() {
			err = fmt.Errorf("epoch %d after %d", again.Epoch(), lock.Epoch())
		}
		return errors.Join(err, ctx.Err())
	})
	err := await(t, "the loss", lost)
	require.ErrorIs(t, err, lifecycle.ErrLockLost)
	require.ErrorContains(t, err, "it was released by ann")
	require.False(t, worker.IsWait(err), "the wait counts from the end of the run")
	f.settled(c)
	f.is(c, `status = 'ACTIVE' AND verdict = 'skipped'`)
	require.Equal(t, "1", f.value("worker_locks_lost_total"))
	require.Equal(t, "0", f.value("worker_locks_held"))
}

func TestARunWhoseLockIsLostIsPutOffAndItIsNoFailure(t *testing.T) {
	for name, work := range map[string]func(ctx context.Context, run *worker.Run) error{
		"puts": func(ctx context.Context, run *worker.Run) error {
			return fmt.Errorf("use the card: %w", run.Put(ctx, note(1)))
		},
		"says it ended":    func(ctx context.Context, _ *worker.Run) error { return ctx.Err() },
		"says another one": func(context.Context, *worker.Run) error { return errors.New("code = Canceled") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.triggered()
			f.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, c.id)
			f.work(func(ctx context.Context, run *worker.Run) error {
				lock, err := run.Acquire(ctx, gpu, brief)
				if err != nil {
					return err
				}
				f.exec(`SELECT moves.release_lock($1, $2, 'ann')`, gpu, lock.Epoch())
				<-lock.Context().Done()
				return work(lock.Context(), run)
			})
			f.settled(c)
			require.True(t, f.one(`SELECT (c.next_sync_at > r.completed_at + interval '8 seconds')::text FROM connectors c JOIN runs r ON r.id = $1 WHERE c.id = r.connector_id`,
				c.session) == "true")
			f.is(c, `status = 'ACTIVE' AND due_reason = 'wait' AND failure_count = 0 AND reason = 'postponed' AND error_message LIKE '%released by ann%'`)
		})
	}
}

// What was listed is not to be believed, whatever became of a lock.
func TestARunWhoseLockIsLostIsListedAgainWhereItsErrorSaysSo(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, brief)
		if err != nil {
			return err
		}
		f.exec(`SELECT moves.release_lock($1, $2, 'ann')`, gpu, lock.Epoch())
		<-lock.Context().Done()
		return worker.Relist(errors.New("the page is gone"))
	})
	f.is(c, `status = 'ERROR' AND failure_count = 1 AND error_message = 'the page is gone'`)
}

func TestARunThatHasItsLostLockAgainFailsAsItsErrorSays(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, brief)
		if err != nil {
			return err
		}
		f.exec(`SELECT moves.release_lock($1, $2, 'ann')`, gpu, lock.Epoch())
		<-lock.Context().Done()
		if _, err := run.Acquire(ctx, gpu, time.Minute); err != nil {
			return err
		}
		return errors.New("the card is broken")
	})
	f.is(c, `status = 'ERROR' AND failure_count = 1 AND error_message = 'the card is broken'`)
}

func TestALivingWorkerGivesBackTheLockOfARunThatFailsWhilePostgresIsAway(t *testing.T) {
	f := newFixture(t)
	postgres, _, behind := f.behind()
	c := f.triggered()
	locks, fail := make(chan *worker.Lock, 1), make(chan struct{})
	behind.work(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, time.Hour)
		if err != nil {
			return err
		}
		locks <- lock
		<-fail
		return errors.New("the card is broken")
	})
	await(t, "the lock", locks)
	postgres.Silence(ways["both ways"]...)
	close(fail)
	behind.says("what the run holds of locks is not given back yet")
	postgres.Heal()
	f.settled(c)
	f.is(c, `status = 'ERROR' AND error_message = 'the card is broken'`)
	f.locked("0 held, 0 wait")
}

// Its context ends then.
func TestAPutUnderALockThatWaitsForCreditWhenTheHandlerReturnsBreaksNoRun(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	put := make(chan error, 1)
	f.workWith(func(cfg *worker.Config) { cfg.Credit = 1 }, func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, time.Minute)
		if err != nil {
			return err
		}
		if err := run.Put(lock.Context(), note(1)); err != nil {
			return err
		}
		go func() { put <- run.Put(lock.Context(), note(2)) }()
		f.waitsAt(run, 1)
		return nil
	})
	require.Error(t, await(t, "the put", put))
	f.settled(c)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`)
	f.whole(c, 1)
}

func TestALockOfWhichNoRenewalIsAnsweredEndsWhatIsDoneUnderIt(t *testing.T) {
	f := newFixture(t)
	postgres, _, behind := f.behind()
	held := behind.holds(gpu, time.Second)
	postgres.Silence(ways["both ways"]...)
	await(t, "the end of the lock", held.lock.Context().Done())
	require.ErrorIs(t, context.Cause(held.lock.Context()), lifecycle.ErrLockLost)
	postgres.Heal()
	f.locked("0 held, 0 wait")
	held.free()
}

// Its run may be rescued then, and the lock be another's, though its own time is not over.
func TestALockEndsWithTheLeaseOfItsRun(t *testing.T) {
	f := newFixture(t)
	postgres, _, behind := f.behind()
	locks, ended := make(chan *worker.Lock, 1), make(chan error, 1)
	c := f.triggered()
	behind.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, time.Hour)
		if err != nil {
			return err
		}
		locks <- lock
		<-lock.Context().Done()
		ended <- errors.Join(context.Cause(lock.Context()), ctx.Err())
		return nil
	})
	await(t, "the lock", locks)
	postgres.Silence(ways["both ways"]...)
	err := await(t, "the end of the lock", ended)
	require.ErrorIs(t, err, lifecycle.ErrLockLost)
	require.ErrorContains(t, err, "lease")
	postgres.Heal()
	f.settled(c)
	f.locked("0 held, 0 wait")
}

func TestALockEndsWithItsRunWhoeverTakesThatAndIsAnothersAfterwards(t *testing.T) {
	f := newFixture(t)
	ended, holder := make(chan error, 1), make(chan string, 1)
	c := f.triggered()
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, func(_ context.Context, run *worker.Run) error {
		lock, err := run.Acquire(context.Background(), gpu, time.Hour)
		if err != nil {
			return err
		}
		<-lock.Context().Done()
		holder <- f.one(`SELECT connector_id FROM resource_locks`)
		ended <- context.Cause(lock.Context())
		return nil
	})
	f.locked("1 held, 0 wait")
	f.triggered()
	epochs := make(chan int64, 1)
	f.work(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, time.Minute, worker.WaitUpTo(time.Hour))
		if err == nil {
			epochs <- lock.Epoch()
		}
		return err
	})
	f.locked("1 held, 1 wait")
	f.exec(`SELECT moves.disable($1)`, c.id)
	require.ErrorIs(t, await(t, "the end of the lock", ended), lifecycle.ErrFenced)
	require.Equal(t, fmt.Sprint(c.id), await(t, "the holder", holder))
	require.Positive(t, await(t, "the next", epochs))
	f.locked("0 held, 0 wait")
}

// One connection renews the locks of all runs of a worker.
func TestAUsersOpenTransactionCostsNoOtherRunItsLock(t *testing.T) {
	f := newFixture(t)
	held := make(chan *worker.Lock, 2)
	users, other := f.triggered(), f.triggered()
	f.workWith(func(c *worker.Config) { c.Slots = 2 }, func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, fmt.Sprint("key:", run.Request().ConnectorId), brief)
		if err != nil {
			return err
		}
		held <- lock
		<-ctx.Done()
		return ctx.Err()
	})
	locks := map[string]*worker.Lock{}
	for range 2 {
		lock := await(t, "the lock", held)
		locks[lock.Key()] = lock
	}
	tx, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `SELECT moves.disable($1)`, users.id)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM resource_locks WHERE connector_id = $1 FOR UPDATE`, users.id)
	require.NoError(t, err)
	lock := locks[fmt.Sprint("key:", other.id)]
	first := lock.ExpiresAt()
	testkit.Eventually(t, soon, func() error {
		if now := lock.ExpiresAt(); lock.Context().Err() == nil && now.Sub(first) < brief {
			return fmt.Errorf("it ends at %s, ended at %s first", now, first)
		}
		return nil
	})
	require.NoError(t, lock.Context().Err())
}

func TestTheLocksOfARunAreFreeBeforeWhatItHasSentIsStored(t *testing.T) {
	f := newFixture(t)
	locks := make(chan *worker.Lock, 1)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, time.Hour)
		if err == nil {
			locks <- lock
			err = run.Put(ctx, note(1))
		}
		return err
	})
	f.settled(c)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL`)
	require.Equal(t, "0 held, 0 wait", f.locks())
	require.Error(t, await(t, "the lock", locks).Context().Err())
}

func TestALockIsGivenBackAndHadAgain(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		first, err := run.Acquire(ctx, gpu, time.Minute)
		if err != nil {
			return err
		}
		if _, err := run.Acquire(ctx, gpu, time.Minute); err == nil || errors.Is(err, worker.ErrLocked) {
			return fmt.Errorf("a run has a lock twice: %w", err)
		}
		first.Free()
		first.Free()
		if held := f.locks(); held != "0 held, 0 wait" {
			return errors.New(held)
		}
		second, err := run.Acquire(ctx, gpu, time.Minute)
		if err == nil && (second.Epoch() <= first.Epoch() || first.Context().Err() == nil || second.Context().Err() != nil) {
			err = fmt.Errorf("epoch %d after %d", second.Epoch(), first.Epoch())
		}
		return err
	})
	f.is(c, `status = 'ACTIVE' AND verdict = 'skipped'`)
}

func TestWhatNoLockMayBeIsAnErrorAndNoRunIsPutOffForIt(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		for name, ask := range map[string]func() (*worker.Lock, error){
			"ttl":  func() (*worker.Lock, error) { return run.Acquire(ctx, gpu, 0) },
			"long": func() (*worker.Lock, error) { return run.Acquire(ctx, gpu, 2*time.Hour) },
			"wait": func() (*worker.Lock, error) { return run.Acquire(ctx, gpu, time.Minute, worker.WaitUpTo(2*time.Hour)) },
			"key":  func() (*worker.Lock, error) { return run.Acquire(ctx, "a b", time.Minute) },
		} {
			if _, err := ask(); err == nil || errors.Is(err, worker.ErrLocked) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	f.is(c, `status = 'ACTIVE' AND verdict = 'skipped'`)
}

func TestAGoroutineThatAHandlerLeftBehindHasNoLock(t *testing.T) {
	f := newFixture(t)
	returned, refused := make(chan struct{}), make(chan error, 1)
	c := f.triggered()
	r := f.work(func(_ context.Context, run *worker.Run) error {
		go func() {
			<-returned
			_, err := run.Acquire(context.Background(), gpu, time.Minute)
			refused <- err
		}()
		return nil
	})
	f.settled(c)
	require.NoError(t, r.stop())
	close(returned)
	require.Error(t, await(t, "the refusal", refused))
	require.Equal(t, "0 held, 0 wait", f.locks())
}

// value is what a metric of the latest worker says, summed over its labels.
func (f *fixture) value(name string) string {
	f.t.Helper()
	all, err := f.metrics.Gather()
	require.NoError(f.t, err)
	sum := 0.0
	for _, family := range all {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return fmt.Sprint(sum)
}

// A key is shown to administrators and kept in the audit.
func TestAKeyWithAPasswordInAURLIsNoLocks(t *testing.T) {
	f := newFixture(t)
	asked := make(chan [2]error, 1)
	c := f.triggered()
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		_, err := run.Acquire(ctx, "ollama:http://bob:hunter2@gpu.example:11434/", time.Minute)
		_, without := run.Acquire(ctx, "ollama:http://gpu.example:11434/", time.Minute)
		asked <- [2]error{err, without}
		return err
	})
	answers := await(t, "the answers", asked)
	require.ErrorContains(t, answers[0], "has a user or password in a URL")
	require.NotContains(t, answers[0].Error(), "hunter2")
	require.NoError(t, answers[1])
	f.settled(c)
	require.NoError(t, r.stop())
}
