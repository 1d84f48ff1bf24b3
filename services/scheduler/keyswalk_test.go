//go:build !race

// What Postgres reads is the same under the race detector.

package scheduler

import (
	"context"
	"testing"
	"time"
)

// Each connector of a full key is walked over once: the looks after that read none of them, and the one behind them is claimed.
func TestAFullKeysBacklogIsWalkedOverOnce(t *testing.T) {
	s := setStage(t)
	const backlog = 20000
	s.limitKey("full", 0)
	s.exec(`UPDATE owner_quotas SET max_connectors = 0`)
	began := time.Now()
	s.force(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys)
		SELECT 'c', 'web', 1, 60, ARRAY['full'] FROM generate_series(1, 200)`)
	s.multiply(backlog / 200)
	s.keyed(7, 1, "free")
	s.Logf("%s to add %d", time.Since(began), backlog)
	scheduler := s.scheduler()
	began = time.Now()
	for looks := 1; one[int](s, inFlightAll) == 0; looks++ {
		s.do(scheduler.Tick(t.Context()))
		t.Logf("%s and %d looks, %d wait", time.Since(began), looks, one[int](s, `SELECT count(*) FROM connectors WHERE waits_for_key IS NOT NULL`))
		if looks == 10 {
			t.Fatal("the one behind the backlog is not claimed")
		}
	}
	want(s, 1, inFlightOfKey, "free")
	s.exec(`VACUUM ANALYZE connectors`)
	s.keyed(8, 1)
	buffers, rows := s.buffers("auto", "", `SELECT * FROM moves.lock_due('web', 0, 500)`)
	t.Logf("a look after that: %d buffers for %d rows", buffers, rows)
	if rows != 1 || buffers > 60 {
		t.Errorf("%d buffers for %d rows", buffers, rows)
	}
	buffers, _ = s.buffers("auto", "", `SELECT * FROM moves.waiting_keys('{}', '', 500)`)
	t.Logf("a look for keys with places: %d buffers", buffers)
	if buffers > 60 {
		t.Errorf("%d buffers are read to release nobody", buffers)
	}
	buffers, _ = s.buffers("auto", "", `SELECT * FROM moves.lock_stale(0, 100, NULL)`)
	t.Logf("a look at 100 that wait: %d buffers", buffers)
	if buffers > 100*12 {
		t.Errorf("%d buffers are read to check 100 that wait", buffers)
	}
	s.limitKey("full", 500)
	began = time.Now()
	buffers, rows = s.buffers("auto", "", `SELECT * FROM moves.lock_waiting('full', 500, -1, NULL)`)
	t.Logf("%s and %d buffers to lock %d of them", time.Since(began), buffers, rows)
	if rows != 500 || buffers > 500*12 {
		t.Errorf("%d buffers are read for the %d whose turn it is", buffers, rows)
	}
	held, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = held.Exec(t.Context(), `SELECT FROM connectors WHERE waits_for_key = 'full' FOR UPDATE`)
	s.do(err)
	buffers, rows = s.buffers("auto", "", `SELECT * FROM moves.lock_waiting('full', 500, -1, NULL)`)
	t.Logf("%d buffers where somebody holds all of them", buffers)
	if rows != 0 || buffers > 2*500*12 {
		t.Errorf("%d buffers are read for %d whose turn it is, where somebody holds all that wait", buffers, rows)
	}
}

// Each key's looks read what that key has, whatever others do: full ones are passed in as many looks as they need, and the last of all has its turn.
func TestManyBusyKeysStarveNoOther(t *testing.T) {
	s := setStage(t)
	const keys = 3000
	s.exec(`UPDATE owner_quotas SET max_connectors = 0`)
	s.exec(`INSERT INTO concurrency_limits (key, most) SELECT 'k' || lpad(i::text, 6, '0'), 0 FROM generate_series(1, $1::int) i`, keys)
	s.force(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys)
		SELECT 'c', 'web', 1, 60, ARRAY['k' || lpad(i::text, 6, '0')] FROM generate_series(1, $1::int) i`, keys)
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, keys, `SELECT count(DISTINCT key) FROM key_waiters`)
	s.exec(`UPDATE concurrency_limits SET most = 1 WHERE key = (SELECT max(key) FROM concurrency_limits)`)
	for range keys/keysAtOnce + 2 {
		s.do(scheduler.Tick(t.Context()))
	}
	want(s, 1, inFlightAll)
	s.exec(`UPDATE concurrency_limits SET most = 1 WHERE key = 'k002000'`)
	scheduler.keyring.hint("k002000") // as its notice does
	s.do(scheduler.Tick(t.Context()))
	want(s, 2, inFlightAll)
}
