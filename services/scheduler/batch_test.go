//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// frontOf is what a look at the front of an index reads when nothing stands there any more, in buffers: few once no transaction of the
// cluster writes that began before what stood there was taken away.
func (s *stage) frontOf(look string) func() error {
	return func() error {
		var text []byte
		s.do(s.servers.Pool.QueryRow(s.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+look).Scan(&text))
		var all []struct {
			Plan struct {
				Hit  int     `json:"Shared Hit Blocks"`
				Read int     `json:"Shared Read Blocks"`
				Rows float64 `json:"Actual Rows"`
			}
		}
		s.do(json.Unmarshal(text, &all))
		if p := all[0].Plan; p.Rows != 0 || p.Hit+p.Read > 20 { // 43 where each is read again
			return fmt.Errorf("it finds %.0f rows and reads %d buffers", p.Rows, p.Hit+p.Read)
		}
		return nil
	}
}

// What a transaction has locked and one of its savepoints has written bears two names. Postgres takes it out of an index only by
// a vacuum, or when its page is full; each look until then reads it again.
func TestALookReadsWhatWasClaimedOrPlannedBeforeItOnlyOnce(t *testing.T) {
	s := setStage(t)
	s.exec(`ALTER TABLE connectors SET (autovacuum_enabled = off, fillfactor = 100)`)
	s.connectors(1600)
	s.exec(`DELETE FROM connectors WHERE id % 4 <> 0`) // no page is full
	s.force(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = $1, last_sync_at = clock_timestamp() - interval '2 days'`, nightly)
	s.force(`UPDATE connectors SET planned_through = last_sync_at`)
	s.exec(`VACUUM ANALYZE connectors`)
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 50 })
	s.do(scheduler.Plan(t.Context()))
	s.eventually(time.Minute, s.frontOf(`SELECT id FROM connectors WHERE needs_plan ORDER BY id LIMIT 1`))
	s.do(scheduler.Tick(t.Context()))
	want(s, 400, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	s.eventually(time.Minute, s.frontOf(
		`SELECT due_at FROM connectors WHERE type = 'web' AND due_at IS NOT NULL ORDER BY due_at LIMIT 1`))
}
