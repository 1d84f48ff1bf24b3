package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/testkit"
)

// locks waits until a process of the server holds an advisory lock, or until none does.
func locks(t *testing.T, pool *pgxpool.Pool, pid uint32, want bool) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		var held bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND granted AND locktype = 'advisory')`, pid).Scan(&held)
		if err == nil && held != want {
			err = fmt.Errorf("process %d holds a lock: %v", pid, held)
		}
		return err
	})
}

// No close, no reset: the server gets no more packets, as after a power cut. Keepalives do not detect it either, because the
// proxy's end of the connection answers them.
func TestAClientThatVanishesInATransactionLosesItsLocks(t *testing.T) {
	t.Parallel()
	vanishing, proxy := through(t)
	lasting := open(t, testkit.Database(t, accounts)) // on the same server
	ctx, cancel := context.WithCancel(t.Context())
	err := TxBounded(ctx, vanishing, Bounds{Idle: 300 * time.Millisecond}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE accounts SET n = 5; SELECT pg_advisory_xact_lock(7)`)
		do(t, err)
		pid := tx.Conn().PgConn().PID()
		proxy.Silence(both...)
		locks(t, lasting, pid, false)
		cancel() // a commit would wait for an answer
		return nil
	})
	if err == nil {
		t.Error("the transaction was committed")
	}
	proxy.Heal()
	var n int
	do(t, vanishing.QueryRow(t.Context(), `SELECT sum(n) FROM accounts`).Scan(&n))
	if n != 0 {
		t.Errorf("the sum is %d, want 0", n)
	}
}

// A client that is gone while its statement runs is not idle: the statement's own bound ends the transaction. Its session is
// then idle for as long as the session's own bound allows, without locks.
func TestAStatementOfAClientThatVanishedEnds(t *testing.T) {
	t.Parallel()
	vanishing, proxy := through(t)
	lasting := open(t, testkit.Database(t, accounts))
	working := make(chan uint32)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- TxBounded(ctx, vanishing, Bounds{Statement: time.Second, Idle: 300 * time.Millisecond}, func(tx pgx.Tx) error {
			working <- tx.Conn().PgConn().PID()
			_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(7), pg_sleep(60)`)
			return err
		})
	}()
	pid := <-working
	locks(t, lasting, pid, true)
	proxy.Silence(both...)
	locks(t, lasting, pid, false)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the transaction was committed")
	}
}

// The process is suspended instead of being gone: its next statement is refused, as a wait.
func TestAClientThatStandsStillInATransactionLosesItsLocksAndIsTold(t *testing.T) {
	t.Parallel()
	pool := open(t, testkit.Database(t, accounts))
	err := TxBounded(t.Context(), pool, Bounds{Idle: 100 * time.Millisecond}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7)`)
		do(t, err)
		locks(t, pool, tx.Conn().PgConn().PID(), false)
		_, err = tx.Exec(t.Context(), `SELECT 1`)
		return err
	})
	if !Unavailable(err) || Locked(err) {
		t.Errorf("%v: unavailable %v, locked %v", err, Unavailable(err), Locked(err))
	}
}
