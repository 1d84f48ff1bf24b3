package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/testkit"
)

// What a user says of a request is in a setting: whatever it is, it is the whole setting, and no statement.
func TestASettingIsItsValueWhateverTheServerTakesForAnEscape(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	texts := []string{"", `'`, `\'; SELECT 1/0; --`, `'', true), set_config('a.b', ''`, "{\"note\": \"größer\n\u0027\"}", strings.Repeat("group,", 20_000), "$$", "/*", "--", "%s", "ö", "\x01\x7f"}
	for _, conforming := range []string{"on", "off"} {
		conn, err := pool.Acquire(t.Context())
		do(t, err)
		_, err = conn.Exec(t.Context(), `SET standard_conforming_strings = `+conforming)
		do(t, err)
		for _, text := range texts {
			settings := []Setting{{"echomind.request", text}, {"echomind.groups", "g"}}
			want := map[string]string{"echomind.request": text, "echomind.groups": "g"}
			do(t, TxBounded(t.Context(), conn, Bounds{Settings: settings}, func(tx pgx.Tx) error {
				isSet(t, tx, want)
				return nil
			}))
			do(t, Tx(t.Context(), conn, func(tx pgx.Tx) error {
				defer isSet(t, tx, want)
				return Set(t.Context(), tx, settings)
			}))
			isSet(t, conn, map[string]string{"echomind.request": "", "echomind.groups": ""})
		}
		conn.Release()
	}
	for _, noText := range []string{"a\x00b", "a\xff"} {
		err := TxBounded(t.Context(), pool, Bounds{Settings: []Setting{{"echomind.request", noText}}}, func(pgx.Tx) error { return nil })
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22021" {
			t.Errorf("%q is set: %v", noText, err)
		}
	}
}

// A transaction of somebody in very many groups says them all: Postgres reads a text a few times as fast as what it is to decode.
func TestASettingThatHasNothingToEscapeIsSentAsItIs(t *testing.T) {
	sent := set([]Setting{{"echomind.groups", "a-b_c,D9"}, {"echomind.request", `{"user_id":7,"role":"user"}`}})
	if want := `select set_config('echomind.groups', 'a-b_c,D9', true), set_config('echomind.request', '{"user_id":7,"role":"user"}', true)`; sent != want {
		t.Errorf("it is %s, want %s", sent, want)
	}
	for _, escaped := range []string{"'", `\`, "\n", "\x00", "\x7f", "ö"} {
		if sent := set([]Setting{{"a.b", escaped}}); !strings.Contains(sent, fmt.Sprintf("decode('%x', 'hex')", escaped)) {
			t.Errorf("%q is sent as %s", escaped, sent)
		}
	}
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// isSet compares the settings of a session or transaction with the expected ones.
func isSet(t *testing.T, q querier, want map[string]string) {
	t.Helper()
	for name, value := range want {
		var got string
		do(t, q.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&got))
		if got != value {
			t.Errorf("%s is %s, want %s", name, got, value)
		}
	}
}

func TestEveryTransactionIsBounded(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	exec(t, pool, `SELECT 1`)
	defaults := map[string]string{
		"lock_timeout": "3s", "statement_timeout": "30s", "idle_in_transaction_session_timeout": "15s",
		"transaction_isolation": "read committed", "transaction_read_only": "off",
	}
	check := func(want map[string]string) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { isSet(t, tx, want); return nil }
	}
	do(t, Tx(t.Context(), pool, check(defaults)))
	do(t, TxBounded(t.Context(), pool, Bounds{}, check(defaults)))
	do(t, TxBounded(t.Context(), pool, Bounds{Statement: 10 * time.Minute}, check(map[string]string{
		"lock_timeout": "3s", "statement_timeout": "10min", "idle_in_transaction_session_timeout": "15s",
	})))
	// Postgres takes 0 for "no limit": a bound below its unit must not become 0.
	do(t, TxBounded(t.Context(), pool, Bounds{Lock: time.Microsecond, Idle: time.Minute + 500*time.Microsecond}, check(map[string]string{
		"lock_timeout": "1ms", "idle_in_transaction_session_timeout": "60001ms",
	})))
	defaults["transaction_isolation"], defaults["transaction_read_only"] = "repeatable read", "on"
	do(t, Snapshot(t.Context(), pool, check(defaults)))
	conn, err := Connect(t.Context(), pool.Config().ConnString(), "test")
	do(t, err)
	defer func() { do(t, conn.Close(t.Context())) }()
	do(t, Tx(t.Context(), conn, check(map[string]string{"lock_timeout": "3s"})))
	isSet(t, conn, map[string]string{"lock_timeout": "5s", "statement_timeout": "0"}) // the session's own again
}

func TestATransactionSetsBoundsOfItsOwnThatWin(t *testing.T) {
	pool := open(t, testkit.Database(t, accounts))
	do(t, Tx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT set_config('lock_timeout', '1min', true)`)
		isSet(t, tx, map[string]string{"lock_timeout": "1min", "statement_timeout": "30s"})
		return err
	}))
}

func TestALockOfAnotherIsToldFromPostgresThatIsAway(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(t *testing.T, pool *pgxpool.Pool) error{
		"a row in a transaction": func(t *testing.T, pool *pgxpool.Pool) error {
			return TxBounded(t.Context(), pool, Bounds{Lock: 10 * time.Millisecond}, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `UPDATE accounts SET n = 2`)
				return err
			})
		},
		"an advisory lock in a transaction": func(t *testing.T, pool *pgxpool.Pool) error {
			return TxBounded(t.Context(), pool, Bounds{Lock: 10 * time.Millisecond}, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7)`)
				return err
			})
		},
		"a table in a session": func(t *testing.T, pool *pgxpool.Pool) error {
			_, err := pool.Exec(t.Context(), `SET lock_timeout = '10ms'; LOCK TABLE accounts`)
			return err
		},
		"a row that is not waited for": func(t *testing.T, pool *pgxpool.Pool) error {
			_, err := pool.Exec(t.Context(), `SELECT FROM accounts FOR UPDATE NOWAIT`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := open(t, testkit.Database(t, accounts))
			do(t, Tx(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `UPDATE accounts SET n = 1; SELECT pg_advisory_xact_lock(7)`)
				do(t, err)
				err = wait(t, pool)
				if !Locked(err) || !Locked(fmt.Errorf("wrapped: %w", err)) || Unavailable(err) {
					t.Errorf("%v: locked %v, unavailable %v", err, Locked(err), Unavailable(err))
				}
				return nil
			}))
			var n int
			do(t, pool.QueryRow(t.Context(), `SELECT sum(n) FROM accounts`).Scan(&n))
			if n != 2 {
				t.Errorf("the sum is %d, want 2", n)
			}
		})
	}
	if Locked(nil) || Locked(context.DeadlineExceeded) {
		t.Error("what is no lock is one")
	}
}
