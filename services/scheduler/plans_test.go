//go:build !race

// What Postgres reads and plans is the same under the race detector.

package scheduler

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func TestEveryLookUsesAnIndex(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'c' || i, (ARRAY['web', 'file', 'teams'])[1 + i % 3], 1 + i % 100, 60, clock_timestamp() FROM generate_series(1, 400) i`)
	s.multiply(50)
	s.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), id, type, 'new', created_at, created_at,
			created_at - make_interval(secs => id), 'completed', 1 FROM connectors`)
	s.connectors(30)
	for i, trigger := range s.claim(s.scheduler()) {
		if i >= 10 {
			s.pickUp(trigger.ID, gone)
		}
	}
	s.age(pastTheGrace)
	s.exec(`UPDATE connectors SET trigger_requested_at = now() WHERE id <= 5`)
	s.cronConnector(nightly, time.Hour)
	s.exec(`ANALYZE connectors, runs, open_runs`)

	watched, r := s.recorded()
	scheduler := watched.scheduler(impatient, func(cfg *Config) { cfg.MaxConcurrentSyncs = 1000 })
	s.do(scheduler.Plan(t.Context()))
	s.do(scheduler.Tick(t.Context()))
	s.do(scheduler.Republish(t.Context()))
	s.do(scheduler.Rescue(t.Context()))
	_, err := scheduler.measureLedger(t.Context(), time.Now().Add(-time.Minute))
	s.do(err)
	s.do(scheduler.measureBacklog(t.Context()))

	for name, by := range map[string]string{
		"DueTypes": "type =", "PendingTypes": "type =", "Verdicts": "completed_at >", "ConnectorsByStatus": "",
		"Backlog": "next_sync_at <=",
	} {
		statement, ran := r.statements[name]
		if !ran {
			t.Errorf("%s was not asked", name)
			continue
		}
		indexed := regexp.MustCompile(`Index Cond: .*\b` + by)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := s.explain(mode, statement)
			if strings.Contains(plan, "Seq Scan on connectors") || strings.Contains(plan, "Seq Scan on runs") ||
				(by != "" && !indexed.MatchString(plan)) {
				t.Errorf("%s (%s) reads more than it needs:\n%s", name, mode, plan)
			}
		}
	}
	for _, name := range []string{"LockDue", "Claim", "LockUnplanned", "Plan", "Redispatch", "Rescue"} {
		if _, ran := r.statements[name]; !ran {
			t.Errorf("%s was not asked", name)
		}
	}
}

func (s *stage) explain(mode string, q statement) string {
	s.Helper()
	tx, err := s.servers.Pool.Begin(s.Context())
	s.do(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(s.Context())) }()
	_, err = tx.Exec(s.Context(), `SET LOCAL plan_cache_mode = `+mode)
	s.do(err)
	rows, err := tx.Query(s.Context(), "EXPLAIN "+q.sql, q.args...)
	s.do(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	s.do(err)
	return strings.Join(lines, "\n")
}

// The statistics are those of a quiet time, in which nothing was in flight.
func TestALookReadsFewBuffersWhateverIsInFlight(t *testing.T) {
	s := setStage(t)
	for _, table := range []string{"connectors", "open_runs", "workers"} {
		s.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
	}
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'c' || i, (ARRAY['web', 'file', 'teams'])[1 + i % 3], 1 + i % 100, 60, clock_timestamp() FROM generate_series(1, 300) i`)
	s.multiply(100)
	s.exec(`ANALYZE connectors, open_runs, workers, connector_types`)
	s.exec(`INSERT INTO workers (id, expires_at) SELECT gen_random_uuid(), clock_timestamp() + interval '1 hour' FROM generate_series(1, 100)`)
	// As they are claimed, but without the dead rows of a claim, which are vacuum's to remove.
	s.exec(`ALTER TABLE connectors DISABLE TRIGGER USER`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at, status, run_id)
		SELECT 'c' || i, (ARRAY['web', 'file', 'teams'])[1 + i % 3], 1, 60, clock_timestamp(),
			CASE WHEN i % 2 = 0 THEN 'PENDING' ELSE 'SYNCING' END, gen_random_uuid() FROM generate_series(1, 20000) i`)
	s.exec(`ALTER TABLE connectors ENABLE TRIGGER USER`)
	s.exec(`WITH w AS (SELECT array_agg(id) AS ids FROM workers)
		INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version,
			picked_up_at, try_id, worker_id)
		SELECT run_id, id, user_id, type, 'schedule', now(), now(), clock_timestamp(), config_version,
			CASE WHEN id % 2 = 1 THEN now() END, CASE WHEN id % 2 = 1 THEN gen_random_uuid() END,
			CASE WHEN id % 2 = 1 THEN w.ids[1 + id % 100] END
		FROM connectors, w WHERE run_id IS NOT NULL`)
	lone := one[uuid.UUID](s, `INSERT INTO workers (id, expires_at) VALUES (gen_random_uuid(), now()) RETURNING id`)
	s.exec(`UPDATE open_runs SET worker_id = $1 WHERE connector_id = 30001`, lone)
	nobody, one := `[]`, fmt.Sprintf(`[{"id":%q,"beats":1}]`, lone)
	long := 15 * time.Minute // nothing but what a case makes so is lost
	due := `UPDATE connectors SET next_sync_at = now(), due_reason = 'schedule', status = 'ACTIVE', run_id = NULL WHERE id = 30000`
	lost := `UPDATE open_runs SET dispatched_at = now() - interval '1 hour' WHERE connector_id = 30002`
	known := `INSERT INTO waiting_types VALUES ('onedrive', false) ON CONFLICT DO NOTHING` // its first claim was long ago
	watched, r := s.recorded()
	scheduler := watched.scheduler()
	s.force(due) // the looks find something to ask, so that the text of the statements is known
	s.exec(lost)
	s.do(scheduler.Tick(t.Context()))
	s.do(scheduler.Republish(t.Context()))
	s.do(scheduler.Rescue(t.Context()))

	for name, c := range map[string]struct {
		before, statement string
		args              []any
		rows              int
		each              int // what a row may cost that is moved
		more              int // what the call may cost besides
	}{
		"types with nothing due":        {statement: "DueTypes", args: []any{nil, nil}},
		"types with something due":      {before: due, statement: "DueTypes", args: []any{nil, nil}, rows: 1},
		"something due of one type":     {before: due, statement: "DueTypes", args: []any{nil, []string{"web"}}, rows: 1},
		"whether a type may be claimed": {before: due, statement: "MayClaim", args: []any{"web", 5}, rows: 1},
		"nothing is due":                {statement: "LockDue", args: []any{nil, "web", 0, 500, nil, 80, mostBatchBytes}},
		"one is due":                    {before: due, statement: "LockDue", args: []any{nil, "web", 0, 500, nil, 80, mostBatchBytes}, rows: 1},
		"the cap is full":               {before: due, statement: "LockDue", args: []any{nil, "web", 5, 500, nil, 80, mostBatchBytes}},
		"a cap of an idle type":         {before: known, statement: "LockDue", args: []any{nil, "onedrive", 5, 500, nil, 80, mostBatchBytes}, more: 40}, // whose turn it is
		"no type has lost a message":    {statement: "PendingTypes", args: []any{nil, long}},
		"no message is lost":            {statement: "Redispatch", args: []any{"file", nil, nil, nil, long, long, 500, mostBatchBytes}},
		"one message is lost":           {before: lost, statement: "Redispatch", args: []any{"teams", nil, nil, nil, long, long, 500, mostBatchBytes}, rows: 1, each: 20},
		"no worker is lost":             {statement: "Rescue", args: []any{nobody, 6 * time.Hour, 500, false, nil, mostBatchBytes}},
		"a worker with one run is lost": {statement: "Rescue", args: []any{one, 6 * time.Hour, 500, false, nil, mostBatchBytes}, rows: 1, each: 100},
		"the workers' heartbeats":       {statement: "Beats", args: []any{uuid.Nil, 1000}, rows: 101},
	} {
		for _, mode := range []string{"auto", "force_generic_plan"} {
			q, ran := r.statements[c.statement]
			if !ran {
				t.Fatalf("%s was not asked", c.statement)
			}
			buffers, rows := s.buffers(mode, c.before, q.sql, c.args...)
			t.Logf("%s (%s): %d buffers for %d rows", name, mode, buffers, rows)
			if rows != c.rows {
				t.Errorf("%s (%s): %d rows, want %d", name, mode, rows, c.rows)
			}
			if buffers > mostBuffers+c.more+max(3, c.each)*c.rows {
				t.Errorf("%s (%s) reads %d buffers", name, mode, buffers)
			}
		}
	}
}

// The statistics are those of the moment at which everything waits: the planner must not take the batch for all there is.
func TestABatchOfLostMessagesIsFoundWithoutReadingTheOthers(t *testing.T) {
	s := setStage(t)
	s.connectors(200)
	s.multiply(50)
	s.do(s.scheduler().Tick(t.Context()))
	s.purge()
	s.age(pastTheGrace)
	s.exec(`VACUUM ANALYZE connectors`)
	s.exec(`VACUUM ANALYZE open_runs`)
	const batch = 50
	buffers, rows := s.buffers("auto", "", `SELECT * FROM moves.redispatch('web', NULL, '15 seconds', '1 minute', $1)`, batch)
	t.Logf("%d buffers for %d rows", buffers, rows)
	if rows != batch || buffers > mostBuffers*batch {
		t.Errorf("%d buffers for %d rows", buffers, rows)
	}
}
