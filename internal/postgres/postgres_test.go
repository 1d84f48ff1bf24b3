package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/testkit"
)

// accounts is a schema with two rows that transactions contend for.
func accounts(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `CREATE TABLE accounts (id int PRIMARY KEY, n int NOT NULL CONSTRAINT never_negative CHECK (n >= 0));
		INSERT INTO accounts VALUES (1, 0), (2, 0)`)
	return err
}

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := Open(t.Context(), url, "test", 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	do(t, err)
}

func TestADeadlockIsRepeated(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	var bothHold sync.WaitGroup // their first row
	bothHold.Add(2)
	ended, tries := make(chan error), make(chan int)
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		go func() {
			n := 0
			ended <- Tx(t.Context(), pool, func(tx pgx.Tx) error {
				n++
				for i, id := range order {
					if i == 1 && n == 1 {
						bothHold.Done()
						bothHold.Wait()
					}
					if _, err := tx.Exec(t.Context(), `UPDATE accounts SET n = n + 1 WHERE id = $1`, id); err != nil {
						return err
					}
				}
				return nil
			})
			tries <- n
		}()
	}
	sum := 0
	for range 2 {
		do(t, <-ended)
		sum += <-tries
	}
	if sum < 3 { // more, where the repeat gets its first row before the transaction that waits for it
		t.Errorf("%d tries, want at least 3: one of the two transactions twice", sum)
	}
	var n int
	do(t, pool.QueryRow(t.Context(), `SELECT sum(n) FROM accounts`).Scan(&n))
	if n != 4 {
		t.Errorf("the sum is %d, want 4", n)
	}
}

func TestADeadlockThatDoesNotEndIsReturned(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	n := 0
	err := Tx(t.Context(), pool, func(tx pgx.Tx) error {
		n++
		_, err := tx.Exec(t.Context(), `DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40P01'; END $$`)
		return err
	})
	if n != maxAttempts || !Unavailable(err) {
		t.Errorf("%d tries, %v", n, err)
	}
}

func TestAFailedTransactionChangesNothing(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	broken, n := errors.New("broken"), 0
	err := Tx(t.Context(), pool, func(tx pgx.Tx) error {
		n++
		_, err := tx.Exec(t.Context(), `UPDATE accounts SET n = 100`)
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) || n != 1 {
		t.Errorf("%d tries, %v", n, err)
	}
	var sum int
	do(t, pool.QueryRow(t.Context(), `SELECT sum(n) FROM accounts`).Scan(&sum))
	if sum != 0 {
		t.Errorf("the sum is %d, want 0", sum)
	}
}

func TestARefusedWriteNamesItsConstraintAndIsNoWait(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	_, err := pool.Exec(t.Context(), `UPDATE accounts SET n = -1`)
	if Constraint(err) != "never_negative" || Unavailable(err) {
		t.Errorf("constraint %q of %v, unavailable %v", Constraint(err), err, Unavailable(err))
	}
	if Constraint(nil) != "" || Constraint(errors.New("never_negative")) != "" || Unavailable(nil) {
		t.Error("what is no error of Postgres names a constraint, or is a wait")
	}
}

func TestErrorsOfAQueryAreNoWaits(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	for _, sql := range []string{`SELECT`, `SELECT * FROM nowhere`, `SELEC`, `SELECT 1/0`, `INSERT INTO accounts VALUES (1, 1)`, `SELECT 'x'::int`} {
		var n int
		if err := pool.QueryRow(t.Context(), sql).Scan(&n); err == nil || Unavailable(err) {
			t.Errorf("%s: %v is a wait", sql, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pool.Ping(ctx); err == nil || Unavailable(err) {
		t.Errorf("a stop of our own (%v) is a wait for Postgres", err)
	}
}

func TestABadAddressIsAnErrorAtOnceThatDoesNotShowThePassword(t *testing.T) {
	_, err := Open(t.Context(), "postgres://me:hunter2@host:port/x", "test", 4)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Open: %v", err)
	}
}
