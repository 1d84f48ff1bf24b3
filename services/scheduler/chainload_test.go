//go:build !race

// What Postgres reads is the same under the race detector.

package scheduler

import (
	"testing"
	"time"
)

// The statistics are those of a quiet time, in which nobody followed.
func TestALookReadsFewBuffersHoweverManyWait(t *testing.T) {
	s := setStage(t)
	for _, table := range []string{"connectors", "run_after", "upstream_ends", "upstream_uses", "followers"} {
		s.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
		s.exec(`ANALYZE ` + table)
	}
	s.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES (1, 30000)`)
	s.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 20)`)
	s.multiply(401)
	s.exec(`ALTER TABLE run_after DISABLE TRIGGER run_after_audit`)
	for upstream := 1; upstream <= 20; upstream++ { // each of the others runs after one of the first 20
		s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT id, $1 FROM connectors WHERE id > 40 AND id % 20 = $1 - 1`, upstream)
	}
	few := s.link(1, 2)
	alone := s.connector(row{"refresh_freq_minutes": nil})
	s.after(few, alone)
	scheduler := s.scheduler()
	began := time.Now()
	s.follow(scheduler)
	t.Log("7,981 connectors were looked at in", time.Since(began))
	want(s, 0, `SELECT count(*)::int FROM followers WHERE look_at IS NOT NULL`)
	s.exec(`VACUUM followers`)
	s.follow(scheduler)
	ended := `UPDATE upstream_ends SET no = 1, completed_no = 1, ended_at = now(), completed_at = now(), tell_at = now() WHERE connector_id IN (SELECT upstream_id FROM run_after WHERE connector_id = 8021)`
	told := `UPDATE followers SET look_at = now() WHERE connector_id = 8021`
	for name, c := range map[string]struct {
		before, sql string
		args        []any
		most        int
	}{
		"nobody has ended":     {"", `SELECT * FROM upstream_ends WHERE NOT wide AND tell_at <= clock_timestamp()`, nil, mostBuffers},
		"some have ended":      {ended, upstreamsToTell, []any{false, never, 0, mostEnds}, mostBuffers},
		"nobody is to be seen": {"", followersToLookAt, []any{false, never, 0, mostFollowers}, mostBuffers},
		"one is to be seen":    {told, followersToLookAt, []any{false, never, 0, mostFollowers}, mostBuffers},
		"one end is told":      {ended, `SELECT moves.hand_on_all(ARRAY[$1::integer], ARRAY[1::bigint], $2)`, []any{alone, fewTold}, 3 * mostBuffers},
		"one is locked":        {told, `SELECT id FROM moves.lock_followers(ARRAY[$1::integer])`, []any{few}, 2 * mostBuffers},
		"one is decided about": {ended, `SELECT * FROM moves.upstreams_of(ARRAY[$1::integer], now())`, []any{few}, mostBuffers},
		"one waits on":         {told, `SELECT moves.look_again(ARRAY[$1::integer], ARRAY[1::bigint], ARRAY[now()], ARRAY[now()], ARRAY[$1::integer])`, []any{few}, mostBuffers},
		"one is let go":        {ended, `SELECT moves.let_follow(ARRAY[$1::integer])`, []any{few}, 4 * mostBuffers},
	} {
		for _, mode := range []string{"auto", "force_generic_plan"} {
			buffers, rows := s.buffers(mode, c.before, c.sql, c.args...)
			t.Logf("%s (%s): %d buffers for %d rows", name, mode, buffers, rows)
			if buffers > c.most {
				t.Errorf("%s (%s) reads %d buffers", name, mode, buffers)
			}
		}
	}
}

// As db/queries/scheduler/chains.sql has them.
const (
	upstreamsToTell = `SELECT e.connector_id FROM upstream_ends e
		WHERE e.wide = $1::boolean AND e.tell_at <= (SELECT clock_timestamp()) AND (e.tell_at, e.connector_id) > ($2::timestamptz, $3::integer)
		ORDER BY e.tell_at, e.connector_id LIMIT $4::integer`
	followersToLookAt = `SELECT f.connector_id FROM followers f
		WHERE f.wide = $1::boolean AND f.look_at <= (SELECT clock_timestamp()) AND (f.look_at, f.connector_id) > ($2::timestamptz, $3::integer)
		ORDER BY f.look_at, f.connector_id LIMIT $4::integer`
)
