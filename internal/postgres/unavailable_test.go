package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/testkit"
)

func TestWhatKeepsPostgresFromAnsweringIsAWait(t *testing.T) {
	for name, cause := range map[string]func(t *testing.T, pool *pgxpool.Pool) error{
		"a statement timeout": func(t *testing.T, pool *pgxpool.Pool) error {
			_, err := pool.Exec(t.Context(), `SET statement_timeout = '10ms'; SELECT pg_sleep(10)`)
			return err
		},
		"our own deadline": func(t *testing.T, pool *pgxpool.Pool) error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := pool.Exec(ctx, `SELECT pg_sleep(10)`)
			return err
		},
		"our own deadline for a place in the pool": func(t *testing.T, pool *pgxpool.Pool) error {
			for range 4 {
				conn, err := pool.Acquire(t.Context())
				do(t, err)
				defer conn.Release()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return pool.Ping(ctx)
		},
		"a backend that was ended by itself": func(t *testing.T, pool *pgxpool.Pool) error {
			_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
			return err
		},
		"a backend that was ended between two statements": func(t *testing.T, pool *pgxpool.Pool) error {
			conn, err := pool.Acquire(t.Context())
			do(t, err)
			defer conn.Release()
			exec(t, pool, `SELECT pg_terminate_backend($1, 5000)`, conn.Conn().PgConn().PID())
			_, err = conn.Exec(t.Context(), `SELECT 1`)
			return err
		},
		"a connection that is known to be lost": func(t *testing.T, pool *pgxpool.Pool) error {
			conn, err := pool.Acquire(t.Context())
			do(t, err)
			defer conn.Release()
			_, _ = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
			_, err = conn.Exec(t.Context(), `SELECT 1`)
			return err
		},
		"a commit on a lost connection": func(t *testing.T, pool *pgxpool.Pool) error {
			return Tx(t.Context(), pool, func(tx pgx.Tx) error {
				exec(t, pool, `SELECT pg_terminate_backend($1, 5000)`, tx.Conn().PgConn().PID())
				return nil
			})
		},
		"idle in a transaction for too long": func(t *testing.T, pool *pgxpool.Pool) error {
			return Tx(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = '10ms'`)
				do(t, err)
				testkit.Eventually(t, 5*time.Second, func() error {
					var n int
					if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`,
						tx.Conn().PgConn().PID()).Scan(&n); err != nil || n == 0 {
						return err
					}
					return fmt.Errorf("the backend is there")
				})
				_, err = tx.Exec(t.Context(), `SELECT 1`)
				return err
			})
		},
		"a standby": func(t *testing.T, pool *pgxpool.Pool) error {
			_, err := pool.Exec(t.Context(), `BEGIN READ ONLY; UPDATE accounts SET n = 1`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := cause(t, open(t, testkit.Database(t, accounts)))
			if err == nil || !Unavailable(err) || !Unavailable(fmt.Errorf("wrapped: %w", err)) {
				t.Errorf("%v (%T) is no wait", err, err)
			}
		})
	}
}

func TestAServerWithoutConnectionsToSpareIsAWait(t *testing.T) {
	_, url := testkit.PrivatePostgres(t, accounts)
	admin, err := pgx.Connect(t.Context(), url)
	do(t, err)
	defer func() { _ = admin.Close(t.Context()) }()
	_, err = admin.Exec(t.Context(), `CREATE ROLE crowded LOGIN PASSWORD 'x' CONNECTION LIMIT 0`)
	do(t, err)
	cfg, err := pgx.ParseConfig(url)
	do(t, err)
	cfg.User, cfg.Password = "crowded", "x"
	if _, err := pgx.ConnectConfig(t.Context(), cfg); err == nil || !Unavailable(err) || !strings.Contains(err.Error(), "53300") {
		t.Errorf("%v is no wait", err)
	}
}

func TestAServerThatStopsIsAWaitUntilItIsBack(t *testing.T) {
	server, url := testkit.PrivatePostgres(t, accounts)
	pool := open(t, url)
	exec(t, pool, `SELECT 1`)

	do(t, server.Stop(t.Context()))
	for range 3 {
		if err := pool.Ping(t.Context()); err == nil || !Unavailable(err) {
			t.Errorf("stopped: %v is no wait", err)
		}
	}
	do(t, server.Restart(t.Context()))
	testkit.Eventually(t, 20*time.Second, func() error {
		err := pool.Ping(t.Context())
		if err != nil && !Unavailable(err) {
			t.Errorf("starting: %v is no wait", err)
		}
		return err
	})

	working := make(chan error)
	go func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), `SELECT pg_sleep(60)`)
		working <- err
	}()
	testkit.Eventually(t, 5*time.Second, func() error {
		var n int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(60)'`).Scan(&n); err != nil || n == 1 {
			return err
		}
		return fmt.Errorf("%d sleep", n)
	})
	do(t, server.Kill())
	if err := <-working; err == nil || !Unavailable(err) {
		t.Errorf("killed at work: %v is no wait", err)
	}
	do(t, server.Restart(t.Context()))
}
