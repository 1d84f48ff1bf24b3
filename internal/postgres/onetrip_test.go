package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/testonly/testkit"
)

func TestAStatementOfOneTripIsBoundedAndCommittedOnItsOwn(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	one := OneTrip{pool, Bounds{Lock: 10 * time.Millisecond, Statement: 7 * time.Second}}
	var lock, statement string
	do(t, one.QueryRow(t.Context(), `SELECT current_setting('lock_timeout'), current_setting('statement_timeout')`).Scan(&lock, &statement))
	if lock != "10ms" || statement != "7s" {
		t.Errorf("it waits for %s, and takes %s", lock, statement)
	}
	_, err := one.Exec(t.Context(), `UPDATE accounts SET n = $1`, 5)
	do(t, err)
	do(t, Tx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE accounts SET n = 6`)
		do(t, err)
		if _, err := one.Exec(t.Context(), `UPDATE accounts SET n = 7`); !Locked(err) {
			t.Errorf("a row that is held: %v", err)
		}
		var n int
		if err := one.QueryRow(t.Context(), `UPDATE accounts SET n = 7 RETURNING n`).Scan(&n); !Locked(err) {
			t.Errorf("a row that is held: %v", err)
		}
		return nil
	}))
	if rows, err := one.Query(t.Context(), `SELECT 1`); err == nil {
		rows.Close()
		t.Error("many rows were read")
	}
	isSet(t, pool, map[string]string{"statement_timeout": "0"})
}

func TestAStatementOfOneTripIsReadCommittedAsATransactionIsWhateverTheDefaultIs(t *testing.T) {
	url := testkit.Database(t, accounts)
	_, err := open(t, url).Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''serializable''', current_database()); END $$`)
	do(t, err)
	pool := open(t, url)
	var alone, within string
	do(t, OneTrip{pool, Bounds{}}.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation')`).Scan(&alone))
	do(t, Tx(t.Context(), pool, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation')`).Scan(&within)
	}))
	if alone != "read committed" || within != alone {
		t.Errorf("alone it is %s, in a transaction %s", alone, within)
	}
}
