package audit_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/chaos/audit"
	"github.com/echomind/sync/chaos/source"
	"github.com/echomind/sync/chaos/synthetic"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
)

// found are the checks that have found a violation in some test.
var found sync.Map

// TestMain fails where a check was never seen to fail: it might look at nothing.
func TestMain(m *testing.M) {
	code := testkit.Main(m)
	some := false
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		some = some || flag.Lookup(name).Value.String() != ""
	}
	if code == 0 && !some {
		for _, name := range append(checks, indexed) {
			if _, failed := found.Load(name); !failed {
				fmt.Printf("no test has made %q fail\n", name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// checks are the names of all findings.
var checks = []string{
	"nothing is stuck", "no trigger is forgotten", "one worker at a time", "no stale writer", "caps", "failures are the source's",
	"nothing starved is failed", "DISABLED by policy or user", "one verdict for each run", "every claim opens its run",
	"every cron slot once", "every slot that came is answered", "the cursor moves with its run", "no checkpoint runs ahead",
	"complete means all stored", "documents are the source's", "nothing is left behind",
}

// soon bounds what takes a few seconds on a busy machine.
const soon = 60 * time.Second

var ctx = context.Background()

// lab is a database with the audit in it.
type lab struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
	opts audit.Options
}

func newLab(t *testing.T) *lab {
	t.Parallel()
	l := &lab{t: t, url: testkit.Database(t, db.Up)}
	var err error
	l.pool, err = postgres.Open(ctx, l.url, "test", 4)
	require.NoError(t, err)
	t.Cleanup(l.pool.Close)
	require.NoError(t, audit.Install(ctx, l.pool))
	l.do(`INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ('synthetic', 0), ('capped', 1)`)
	return l
}

func (l *lab) do(query string, args ...any) {
	l.t.Helper()
	_, err := l.pool.Exec(ctx, query, args...)
	require.NoError(l.t, err)
}

func (l *lab) ask(to any, query string, args ...any) {
	l.t.Helper()
	require.NoError(l.t, l.pool.QueryRow(ctx, query, args...).Scan(to))
}

// add makes a connector that syncs once by itself, and then as often as it is triggered.
func (l *lab) add(connectorType string, cfg source.Config) (id int32) {
	l.t.Helper()
	if cfg.Mode == "" {
		cfg.Mode = source.Delta
	}
	text, err := json.Marshal(cfg)
	require.NoError(l.t, err)
	l.ask(&id, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('one', $1, 1, $2, 0) RETURNING id`, connectorType, text)
	return id
}

// addScheduled makes one that was synced and planned ten minutes ago, so that its slots have passed.
func (l *lab) addScheduled(column string, schedule any, cfg source.Config) (id int32) {
	l.t.Helper()
	cfg.Mode = source.Delta
	text, err := json.Marshal(cfg)
	require.NoError(l.t, err)
	l.ask(&id, `INSERT INTO connectors (name, type, user_id, config, last_sync_at, planned_through, `+column+`)
		VALUES ('one', 'synthetic', 1, $1, clock_timestamp() - interval '10 minutes', clock_timestamp() - interval '10 minutes', $2)
		RETURNING id`, text, schedule)
	return id
}

// claim does what the scheduler does with a connector that is due, under a given reason.
func (l *lab) claim(id int32) (session uuid.UUID) {
	l.t.Helper()
	session = uuid.New()
	l.do(`WITH opened AS (
			INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, slot, due_at, started_at, config_version)
			SELECT $2, id, 'test', due_reason, CASE WHEN due_reason = 'schedule' THEN slot_at END, next_sync_at,
				clock_timestamp(), config_version
			FROM connectors WHERE id = $1)
		UPDATE connectors SET status = 'PENDING', chunking_session = $2, dispatched_at = clock_timestamp(),
			next_sync_at = NULL, due_reason = NULL, slot_at = NULL, needs_plan = false,
			planned_through = CASE WHEN due_reason = 'schedule' AND schedule_cron IS NOT NULL THEN slot_at
				ELSE planned_through END
		WHERE id = $1`, id, session)
	return session
}

// pickUp brings a connector to SYNCING under a lease.
func (l *lab) pickUp(id int32, lease time.Duration) {
	l.t.Helper()
	l.do(`UPDATE connectors SET status = 'SYNCING', lease_owner = gen_random_uuid(), lease_expires_at = clock_timestamp() + $2
		WHERE id = $1`, id, lease)
}

// rescue does what the scheduler does with a lost worker.
func (l *lab) rescue(id int32) (session uuid.UUID) {
	l.t.Helper()
	session = uuid.New()
	l.together(func(do func(string, ...any)) {
		do(`UPDATE connectors SET status = 'PENDING', chunking_session = $2, dispatched_at = clock_timestamp(),
			lease_owner = NULL, lease_expires_at = NULL, failure_count = failure_count + 1 WHERE id = $1`, id, session)
		do(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, config_version)
			SELECT $2, id, 'test', 'rescue', clock_timestamp(), clock_timestamp(), config_version
			FROM connectors WHERE id = $1`, id, session)
	})
	return session
}

// together makes several statements one transaction.
func (l *lab) together(work func(do func(query string, args ...any))) {
	l.t.Helper()
	tx, err := l.pool.Begin(ctx)
	require.NoError(l.t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	work(func(query string, args ...any) {
		l.t.Helper()
		_, err := tx.Exec(ctx, query, args...)
		require.NoError(l.t, err)
	})
	require.NoError(l.t, tx.Commit(ctx))
}

// fail does what the worker kit does with an error.
func (l *lab) fail(id int32, kind string) {
	l.t.Helper()
	l.do(`UPDATE connectors SET status = 'ERROR', status_message = 'it failed', due_reason = $2, chunking_session = NULL,
		lease_owner = NULL, lease_expires_at = NULL WHERE id = $1`, id, kind)
}

// finish completes a run of which nothing had to be stored.
func (l *lab) finish(id int32, session uuid.UUID, version int) {
	l.t.Helper()
	l.together(func(do func(string, ...any)) {
		do(`UPDATE scheduler_runs SET status = 'skipped', reason = 'nothing had changed', total = 0,
			completed_at = clock_timestamp() WHERE id = $1`, session)
		do(`UPDATE connectors SET status = 'ACTIVE', last_sync_at = clock_timestamp(), chunking_session = NULL,
			lease_owner = NULL, lease_expires_at = NULL, state = jsonb_build_object('version', $2::int) WHERE id = $1`, id, version)
	})
}

// run plays the whole pipeline against the database until the returned function is called.
func (l *lab) run(types ...string) (stop func()) {
	l.t.Helper()
	broker := testkit.NATS(l.t)
	process := func() connect.Process { return connect.NewProcess(testkit.Logger(l.t)) }
	common := config.Common{
		DatabaseURL: l.url, NATSURL: broker.URL(), DatabaseMaxConns: 4, LogFormat: "text", ShutdownGraceSeconds: 5,
	}
	var s scheduler.Config
	var w synthetic.Config
	var m semantic.Config
	for _, part := range []any{&s, &w, &m} {
		require.NoError(l.t, config.Load(part))
	}
	s.Common, w.Common, m.Common, w.Types = common, common, common, types
	working, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return scheduler.Run(working, s, process()) })
	group.Go(func() error { return synthetic.Run(working, w, process()) })
	group.Go(func() error { return semantic.Run(working, m, process()) })
	return func() {
		l.t.Helper()
		cancel()
		require.NoError(l.t, group.Wait())
	}
}

// settle waits until n runs have ended and everything is at rest.
func (l *lab) settle(n int) {
	l.t.Helper()
	testkit.Eventually(l.t, soon, func() error {
		var ended, restless int
		l.ask(&ended, `SELECT count(*) FROM scheduler_runs WHERE status NOT IN ('running', 'missed')`)
		l.ask(&restless, `SELECT count(*) FROM connectors
			WHERE chunking_session IS NOT NULL OR next_sync_at <= clock_timestamp() OR needs_plan`)
		if ended < n || restless > 0 {
			return fmt.Errorf("%d of %d runs have ended, %d things are not at rest", ended, n, restless)
		}
		return nil
	})
}

// swept waits until nothing is left to sweep.
func (l *lab) swept() {
	l.t.Helper()
	testkit.Eventually(l.t, soon, func() error {
		var left int
		l.ask(&left, `SELECT (SELECT count(*) FROM scheduler_runs WHERE swept_at IS NULL) + (SELECT count(*) FROM deleted_connectors)`)
		if left > 0 {
			return fmt.Errorf("%d runs and connectors are to be swept", left)
		}
		return nil
	})
}

// audit is the finding of one check.
func (l *lab) audit(name string) audit.Finding {
	l.t.Helper()
	all, err := audit.Audit(ctx, l.pool, l.opts)
	require.NoError(l.t, err)
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	l.t.Fatalf("there is no check %q", name)
	return audit.Finding{}
}

// finds fails the test unless the check has found the violation.
func (l *lab) finds(name, part string) {
	l.t.Helper()
	f := l.audit(name)
	require.NotZero(l.t, f.Checked, "it has looked at nothing")
	require.Contains(l.t, strings.Join(f.Violations, "\n"), part)
	found.Store(name, true)
}
