//go:build !race

// What Postgres reads is the same under the race detector.

package scheduler

import (
	"testing"
	"time"
)

// Each connector of a full key is walked over once: the looks after that read none of them, and the one behind them is claimed.
func TestAFullKeysBacklogIsWalkedOverOnce(t *testing.T) {
	s := setStage(t)
	const backlog = 100000
	s.limitKey("full", 0)
	s.exec(`UPDATE owner_quotas SET max_connectors = 0`)
	s.force(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys)
		SELECT 'c', 'web', 1, 60, ARRAY['full'] FROM generate_series(1, $1::int)`, backlog)
	s.keyed(7, 1, "free")
	scheduler := s.scheduler()
	began := time.Now()
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
	buffers, _ = s.buffers("auto", "", `SELECT * FROM moves.release_waiting('', 500)`)
	t.Logf("a look for whom to release: %d buffers", buffers)
	if buffers > 60 {
		t.Errorf("%d buffers are read to release nobody", buffers)
	}
}
