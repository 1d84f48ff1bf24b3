package scheduler

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// Ends, claims, bulk updates, rows that are written and removed, and deletions at once, with two schedulers: nobody fails, and at rest nobody waits for what has happened.
func TestEverybodyWritesChainsAtOnce(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 60)`)
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT f, u FROM generate_series(21, 60) f, generate_series(1, 20) u WHERE (f + u) % 5 = 0`)
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	var mu sync.Mutex
	problems := map[string]int{}
	each := func(name, sql string) {
		wait.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.servers.Pool.Exec(ctx, sql); err != nil && ctx.Err() == nil {
					mu.Lock()
					problems[name+": "+err.Error()]++
					mu.Unlock()
				}
			}
		})
	}
	for range 2 {
		scheduler := s.scheduler()
		wait.Go(func() {
			for ctx.Err() == nil {
				if err := scheduler.Follow(ctx); err != nil && ctx.Err() == nil {
					mu.Lock()
					problems["follow: "+err.Error()]++
					mu.Unlock()
				}
				if _, err := scheduler.Claim(ctx, "web", 0, 500); err != nil && ctx.Err() == nil {
					mu.Lock()
					problems["claim: "+err.Error()]++
					mu.Unlock()
				}
			}
		})
	}
	each("trigger", `SELECT moves.trigger_sync(1 + (random() * 19)::int)`)
	each("pick up", `SELECT moves.pick_up(connector_id, id, gen_random_uuid(), NULL, NULL) FROM (SELECT * FROM open_runs WHERE try_id IS NULL ORDER BY random() LIMIT 1) r`)
	each("finish", `SELECT CASE WHEN random() < 0.8 THEN moves.finish(id, try_id) ELSE moves.fail(id, try_id, 'permanent', 'x') END FROM (SELECT * FROM open_runs WHERE try_id IS NOT NULL ORDER BY random() LIMIT 1) r`)
	each("bulk", `UPDATE connectors SET name = left(name || 'x', 10) WHERE id IN (SELECT id FROM connectors WHERE id > 20 ORDER BY id FOR UPDATE)`)
	each("mend", `UPDATE connectors SET config = jsonb_build_object('url', gen_random_uuid()) WHERE id = (SELECT 1 + (random() * 59)::int) AND status = 'ERROR'`) // one: several would be locked in no order
	each("write", `INSERT INTO run_after (connector_id, upstream_id) SELECT 21 + (random() * 39)::int, 1 + (random() * 19)::int ON CONFLICT DO NOTHING`)
	each("remove", `DELETE FROM run_after WHERE (connector_id, upstream_id) = (SELECT connector_id, upstream_id FROM run_after ORDER BY random() LIMIT 1)`)
	each("change", `UPDATE run_after SET timeout_minutes = 500 WHERE (connector_id, upstream_id) = (SELECT connector_id, upstream_id FROM run_after ORDER BY random() LIMIT 1)`)
	each("switch", `SELECT moves.disable(20 + n), moves.enable(20 + n) FROM (SELECT (random() * 40)::int AS n) k`)
	each("give", `UPDATE connectors SET user_id = 3 - user_id WHERE id = 60 AND random() < 0.05`)
	wait.Wait()
	for what, n := range problems {
		t.Log(n, what)
		if strings.Contains(what, "deadlock") {
			t.Error(what)
		}
	}
	// At rest.
	scheduler := s.scheduler()
	s.exec(`UPDATE connectors SET config = jsonb_build_object('url', gen_random_uuid()) WHERE status = 'ERROR'`)
	for range 20 {
		s.exec(`UPDATE upstream_ends SET tell_at = clock_timestamp() WHERE tell_at IS NOT NULL`)
		s.follow(scheduler)
		s.claim(scheduler)
		s.exec(`SELECT moves.pick_up(connector_id, id, gen_random_uuid(), NULL, NULL) FROM open_runs WHERE try_id IS NULL`)
		s.exec(`SELECT moves.finish(id, try_id) FROM open_runs`)
	}
	want(s, 0, `SELECT count(*)::int FROM open_runs`)
	want(s, 0, `SELECT count(*)::int FROM connectors c WHERE c.status = 'ACTIVE' AND c.next_sync_at IS NULL AND EXISTS (SELECT FROM run_after a WHERE a.connector_id = c.id)
		AND NOT EXISTS (SELECT FROM run_after_ends e WHERE e.connector_id = c.id AND e.counted_no <= e.used)`)
	want(s, 0, `SELECT count(*)::int FROM connectors c WHERE c.follows <> EXISTS (SELECT FROM run_after a WHERE a.connector_id = c.id)`)
	want(s, 0, `SELECT count(*)::int FROM upstream_uses u WHERE seen IS NOT NULL`)
	t.Log(one[int](s, `SELECT count(*)::int FROM runs WHERE trigger = 'upstream' AND status = 'completed'`), "runs after others")
}
