package testkit

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

var sessions struct {
	sync.Mutex
	of map[testing.TB]map[string]*pgxpool.Pool
}

// Sessions are those of this test in a database, for statements of its own: the same for each call, up to the end of the test. A new
// session for each statement would parse, plan and compile everything anew, which costs much more than the statement.
func Sessions(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	sessions.Lock()
	defer sessions.Unlock()
	if pool := sessions.of[t][url]; pool != nil {
		return pool
	}
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatalf("open a pool: %v", err)
	}
	if sessions.of == nil {
		sessions.of = map[testing.TB]map[string]*pgxpool.Pool{}
	}
	if sessions.of[t] == nil {
		sessions.of[t] = map[string]*pgxpool.Pool{}
	}
	sessions.of[t][url] = pool
	t.Cleanup(func() {
		sessions.Lock()
		defer sessions.Unlock()
		delete(sessions.of[t], url)
		if len(sessions.of[t]) == 0 {
			delete(sessions.of, t)
		}
		pool.Close()
	})
	return pool
}
