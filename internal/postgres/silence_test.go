package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/testkit"
)

// both ways.
var both = []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient}

// through returns a pool that reaches its database through a proxy.
func through(t *testing.T) (*pgxpool.Pool, *faultproxy.Proxy) {
	t.Helper()
	direct := testkit.Database(t, accounts)
	u, err := url.Parse(direct)
	do(t, err)
	proxy, err := faultproxy.Start(u.Host)
	do(t, err)
	t.Cleanup(func() { do(t, proxy.Close()) })
	u.Host = proxy.Addr()
	return open(t, u.String()), proxy
}

// ask runs a query with its own deadline.
func ask(pool *pgxpool.Pool, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err := pool.Exec(ctx, `SELECT 1`)
	return err
}

// answers fails the test where no query is answered in time. One that finds no connection within our own deadline for that is repeated: a busy machine may
// take longer.
func answers(t *testing.T, pool *pgxpool.Pool, within time.Duration) {
	t.Helper()
	for until := time.Now().Add(within); ; {
		err := ask(pool, time.Until(until))
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// closes fails the test where a pool closes no sooner than by the driver's own timeouts (15 s, and a minute for a ping). It takes up to 7 s: a connect's 5 s,
// and two steps of a goodbye.
func closes(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() { pool.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(14 * time.Second):
		t.Fatal("the pool does not close")
	}
}

func TestAPoolClosesThoughItsServerIsSilent(t *testing.T) {
	t.Parallel()
	for name, ways := range map[string][]faultproxy.Direction{
		"both ways": both, "to the server": {faultproxy.ToServer}, "to the client": {faultproxy.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for state, prepare := range map[string]func(*testing.T, *pgxpool.Pool, *faultproxy.Proxy){
				"idle": func(t *testing.T, pool *pgxpool.Pool, proxy *faultproxy.Proxy) {
					answers(t, pool, testkit.Patience(5*time.Second))
					proxy.Silence(ways...)
				},
				"a query given up": func(t *testing.T, pool *pgxpool.Pool, proxy *faultproxy.Proxy) {
					answers(t, pool, testkit.Patience(5*time.Second))
					proxy.Silence(ways...)
					if err := ask(pool, 50*time.Millisecond); err == nil || !Unavailable(err) {
						t.Errorf("a silent server: %v", err)
					}
				},
				"a connect given up": func(t *testing.T, pool *pgxpool.Pool, proxy *faultproxy.Proxy) {
					proxy.Silence(ways...)
					if err := ask(pool, 50*time.Millisecond); err == nil || !Unavailable(err) {
						t.Errorf("a silent server: %v", err)
					}
				},
				"in a transaction": func(t *testing.T, pool *pgxpool.Pool, proxy *faultproxy.Proxy) {
					err := Tx(t.Context(), pool, func(tx pgx.Tx) error {
						proxy.Silence(ways...)
						ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
						defer cancel()
						_, err := tx.Exec(ctx, `UPDATE accounts SET n = 1`)
						return err
					})
					if err == nil || !Unavailable(err) {
						t.Errorf("a silent server: %v", err)
					}
				},
			} {
				t.Run(state, func(t *testing.T) {
					pool, proxy := through(t)
					prepare(t, pool, proxy)
					closes(t, pool)
				})
			}
		})
	}
}

func TestAConnectionWhosePingIsNotAnsweredGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	pool, proxy := through(t)
	answers(t, pool, testkit.Patience(5*time.Second))
	idleForAPing(t)
	proxy.Silence(both...)
	if err := ask(pool, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
	closes(t, pool) // without its own deadline the ping would hold it for a minute
}

func TestAllPlacesOfAPoolComeFreeSoonAfterTheirQueriesAreGivenUp(t *testing.T) {
	t.Parallel()
	pool, proxy := through(t)
	fill(t, pool)
	proxy.Silence(faultproxy.ToClient)
	given := make(chan error)
	for range pool.Config().MaxConns {
		go func() { given <- ask(pool, 100*time.Millisecond) }()
	}
	for range pool.Config().MaxConns {
		if err := <-given; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a silent server: %v", err)
		}
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := pool.Stat().TotalConns(); n > 0 {
			return fmt.Errorf("%d places are taken", n)
		}
		return nil
	})
	proxy.Heal()
	answers(t, pool, testkit.Patience(5*time.Second))
}

func TestDeadConnectionsOfAPoolCostLessThanADeadlineEach(t *testing.T) {
	t.Parallel()
	pool, proxy := through(t)
	fill(t, pool)
	idleForAPing(t)
	proxy.Strand()
	answers(t, pool, time.Duration(pool.Config().MaxConns)*pingTimeout+testkit.Patience(5*time.Second)) // the driver gives each a minute
}

// fill opens as many connections as the pool may have.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for range pool.Config().MaxConns {
		var conn *pgxpool.Conn
		testkit.Eventually(t, 5*time.Second, func() (err error) { // each attempt has our own deadline for a connect
			conn, err = pool.Acquire(t.Context())
			return err
		})
		defer conn.Release()
	}
}

// idleForAPing waits until the pool's connections have been idle for so long that they are pinged before their next use.
func idleForAPing(t *testing.T) {
	t.Helper()
	began := time.Now()
	testkit.Eventually(t, 5*time.Second, func() error {
		if idle := time.Since(began); idle < 1100*time.Millisecond {
			return fmt.Errorf("idle for %s", idle)
		}
		return nil
	})
}
