package scheduler

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/connect"
)

// recorder keeps the statements that pass through a pool.
type recorder struct {
	mu         sync.Mutex
	statements map[string]statement
}

type statement struct {
	sql  string
	args []any
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if name, named := strings.CutPrefix(q.SQL, "-- name: "); named {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.statements[name[:strings.IndexByte(name, ' ')]] = statement{q.SQL, q.Args}
	}
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// recorded is the stage with a recorder on its pool.
func (s *stage) recorded() (*stage, *recorder) {
	s.Helper()
	r := &recorder{statements: map[string]statement{}}
	cfg, err := pgxpool.ParseConfig(s.url)
	s.do(err)
	cfg.ConnConfig.Tracer = r
	pool, err := pgxpool.NewWithConfig(s.Context(), cfg)
	s.do(err)
	s.Cleanup(pool.Close)
	other := *s
	other.servers = &connect.Servers{Pool: pool, NATS: s.servers.NATS, Stream: s.servers.Stream}
	return &other, r
}

func TestEveryLookUsesAnIndex(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'c' || i, (ARRAY['web', 'file', 'teams'])[1 + i % 3], 1, 60, clock_timestamp() FROM generate_series(1, 100000) i`)
	s.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, completed_at, status,
			config_version)
		SELECT gen_random_uuid(), id, 'connector.sync.' || type, 'new', created_at, created_at,
			created_at - make_interval(secs => id), 'completed', 1 FROM connectors`)
	s.connectors(30)
	for i, trigger := range s.claim(s.scheduler()) {
		if i >= 10 {
			s.pickUp(trigger.ID, gone)
		}
	}
	s.draining()
	s.age(pastTheGrace)
	s.exec(`UPDATE connectors SET next_sync_at = now(), slot_at = now() WHERE id <= 5`)
	s.cronConnector(nightly, time.Hour)
	s.exec(`ANALYZE connectors, scheduler_runs`)

	watched, r := s.recorded()
	scheduler := watched.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 1000 })
	s.forget(s.document())
	s.do(scheduler.Tick(t.Context()))
	scheduler.Watch(t.Context())
	_, err := scheduler.measureLedger(t.Context(), time.Now().Add(-time.Minute))
	s.do(err)
	s.do(scheduler.measureBacklog(t.Context()))

	// "": either of the partial indexes on what is in flight will do; which one depends on the sample of ANALYZE.
	for name, by := range map[string]string{
		"DueTypes": "type =", "LockDue": "next_sync_at <=", "InFlight": "type =", "CloseStrayRuns": "connector_id =",
		"OpenRuns": "slot =", "Claim": "id =", "LockUnplanned": "", "Plan": "id =", "PendingTypes": "dispatched_at <",
		"Redispatch": "dispatched_at <", "LockAbandoned": "", "ClaimAgain": "id =", "DrainingRuns": "",
		"FailLostInTransit": "run_id =", "Verdicts": "completed_at >", "ConnectorsByStatus": "", "Backlog": "next_sync_at <=",
		"Draining": "",
	} {
		statement, ran := r.statements[name]
		if !ran {
			t.Errorf("%s was not asked", name)
			continue
		}
		indexed := regexp.MustCompile(`Index Cond: .*\b` + by)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := s.explain(mode, statement)
			if strings.Contains(plan, "Seq Scan on connectors") || strings.Contains(plan, "Seq Scan on scheduler_runs") ||
				(by != "" && !indexed.MatchString(plan)) {
				t.Errorf("%s (%s) reads more than it needs:\n%s", name, mode, plan)
			}
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
