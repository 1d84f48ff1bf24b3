//go:build !race

package scheduler

import (
	"testing"
)

// manyLost is 30,000 connectors; 10,000 of them are fetched by 100 workers that are all lost. failures says of connector i how
// often it has failed before.
func (s *stage) manyLost(failures string) (silent string) {
	s.Helper()
	for _, table := range []string{"connectors", "open_runs", "workers"} {
		s.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
	}
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'c' || i, (ARRAY['web', 'file', 'teams'])[1 + i % 3], 1 + i % 10, 60, clock_timestamp() FROM generate_series(1, 400) i`)
	s.multiply(50)
	s.exec(`ANALYZE connectors, open_runs, workers, connector_types`) // the statistics are those of a quiet time
	s.exec(`INSERT INTO workers (id, expires_at) SELECT gen_random_uuid(), now() FROM generate_series(1, 100)`)
	s.exec(`ALTER TABLE connectors DISABLE TRIGGER USER`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at, status, run_id, failure_count)
		SELECT 'c' || i, (ARRAY['web', 'file', 'teams'])[1 + i % 3], 1 + i % 10, 60, clock_timestamp(), 'SYNCING', gen_random_uuid(), ` + failures + `
		FROM generate_series(1, 10000) i`)
	s.exec(`ALTER TABLE connectors ENABLE TRIGGER USER`)
	s.exec(`WITH w AS (SELECT array_agg(id ORDER BY id) AS ids FROM workers)
		INSERT INTO open_runs (id, connector_id, type, user_id, trigger, due_at, started_at, dispatched_at, config_version,
			picked_up_at, try_id, worker_id, fails_if_lost)
		SELECT run_id, id, type, user_id, 'schedule', now(), now(), clock_timestamp(), config_version,
			now(), gen_random_uuid(), w.ids[1 + id % 100], failure_count > 0
		FROM connectors, w WHERE run_id IS NOT NULL`)
	return one[string](s, `SELECT json_agg(json_build_object('id', id, 'beats', beats))::text FROM workers`)
}

func TestABatchOfLostWorkersRunsIsFoundWithoutReadingTheOthers(t *testing.T) {
	const batch, workers = 50, 100
	for failures, rows := range map[string]map[string]int{
		"0":     {"rescue": batch, "abandon": 0}, // each is a first loss
		"1":     {"rescue": 0, "abandon": batch},
		"i % 2": {"rescue": batch, "abandon": batch},
	} {
		t.Run(failures, func(t *testing.T) {
			s := setStage(t)
			silent := s.manyLost(failures)
			for _, statistics := range []string{"of a quiet time", "of now"} {
				if statistics == "of now" {
					s.exec(`VACUUM ANALYZE connectors`)
					s.exec(`VACUUM ANALYZE open_runs`)
					s.exec(`VACUUM ANALYZE workers`)
				}
				for move, want := range rows {
					buffers, got := s.buffers("auto", "", `SELECT * FROM moves.`+move+`($1::jsonb, '6 hours', $2)`, silent, batch)
					t.Logf("%s, statistics %s: %d buffers for %d rows", move, statistics, buffers, got)
					if got != want {
						t.Errorf("%s, statistics %s: %d rows, want %d", move, statistics, got, want)
					}
					if buffers > (3*mostBuffers+15)*want+4*workers { // the others would be hundreds of thousands; one that fails is noted for lists
						t.Errorf("%s, statistics %s: %d buffers for %d rows", move, statistics, buffers, got)
					}
				}
			}
		})
	}
}
