//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"testing"
	"time"
)

// Each runs after a thousand, and these have ended once more since they were let go.
func TestTheClaimsOfATypeGoOnWhereItsFollowersHaveManyUpstreams(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES (1, 30000)`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'c', 'web', 1, NULL FROM generate_series(1, 1100)`)
	s.exec(`SET session_replication_role = replica; INSERT INTO run_after (connector_id, upstream_id) SELECT f, u FROM generate_series(1001, 1100) f, generate_series(1, 1000) u`)
	s.exec(`SET session_replication_role = replica; INSERT INTO upstream_ends (connector_id, no, completed_no, ended_at, completed_at, ended_for, completed_for) SELECT u, 1, 1, now(), now(), now(), now() FROM generate_series(1, 1000) u`)
	s.exec(`INSERT INTO followers (connector_id) SELECT f FROM generate_series(1001, 1100) f`)
	s.force(`UPDATE connectors SET followed = id <= 1000, follows = id > 1000`)
	s.exec(`ANALYZE`)
	s.exec(`UPDATE followers SET look_at = now()`)
	scheduler := s.scheduler()
	began := time.Now()
	s.follow(scheduler)
	t.Log("let go in", time.Since(began), one[int](s, `SELECT count(*)::int FROM connectors WHERE due_reason = 'upstream'`))
	s.exec(`UPDATE upstream_ends SET no = 2, completed_no = 2`)
	began = time.Now()
	n := 0
	for range 10 {
		claimed, err := scheduler.Claim(t.Context(), "web", 0, 500)
		n += len(claimed)
		if len(claimed) > 60 {
			t.Errorf("%d are claimed at once, each of which has a thousand ends to write", len(claimed))
		}
		t.Log(len(claimed), "claimed in", time.Since(began), err)
		if n == 100 || err != nil {
			break
		}
	}
	if n != 100 {
		t.Errorf("%d claimed", n)
	}
}
