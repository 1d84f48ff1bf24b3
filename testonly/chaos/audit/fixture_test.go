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

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
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
		for _, name := range append(checks, indexed, published, madeOnce, noHalf, eachOnce, noDefect) {
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
	"nothing is stuck", "no chain waits for what has happened", "no trigger is forgotten", "one worker at a time", "no stale writer", "caps", "failures are the source's",
	"nothing starved is failed", "DISABLED by policy or user", "one verdict for each run", "every claim opens its run",
	"in flight is an open run", planStays,
	"every cron slot once", "every slot that came is answered", "no slot twice", "the cursor moves with its run", "no checkpoint runs ahead",
	"complete means all stored", "documents are the source's", "nothing is left behind", oneHolder, noKeyOver,
	soItWas, rulesKept, noneInside,
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
	l.ask(&id, `INSERT INTO connectors (name, type, user_id, config, last_sync_at, `+column+`)
		VALUES ('one', 'synthetic', 1, $1, clock_timestamp() - interval '10 minutes', $2) RETURNING id`, text, schedule)
	l.force(`UPDATE connectors SET planned_through = last_sync_at WHERE id = $1 AND schedule_cron IS NOT NULL`, id)
	return id
}

// force writes what only moves write.
func (l *lab) force(query string, args ...any) {
	l.t.Helper()
	movestest.Force(l.t, l.pool, query, args...)
}

// claim does what the scheduler does with a connector that is due.
func (l *lab) claim(id int32) (run uuid.UUID) {
	l.t.Helper()
	run = uuid.New()
	var claimed int
	l.ask(&claimed, `SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', id, 'run_id', $2::uuid, 'slot', slot_at)), clock_timestamp())
		FROM connectors WHERE id = $1`, id, run)
	require.Equal(l.t, 1, claimed)
	return run
}

// pickUp brings a connector to SYNCING under a lease; one of the past has run out.
func (l *lab) pickUp(id int32, lease time.Duration) (try uuid.UUID) {
	l.t.Helper()
	var run uuid.UUID
	l.ask(&run, `SELECT run_id FROM connectors WHERE id = $1`, id)
	try = movestest.PickUp(l.t, l.pool, id, run, time.Hour).ID
	l.do(`UPDATE workers SET expires_at = clock_timestamp() + $2, beats = beats + 1
		WHERE id = (SELECT worker_id FROM open_runs WHERE connector_id = $1)`, id, lease)
	return try
}

// giveUp ends a connector's run as a failure, whatever its lease says.
const giveUp = `SELECT moves.end_runs(ARRAY[run_id], 'failed', $2, $2) FROM connectors WHERE id = $1`

// rescue does what the scheduler does with a lost worker, and does not look at its lease.
func (l *lab) rescue(id int32) (run uuid.UUID) {
	l.t.Helper()
	run = uuid.New()
	l.together(func(do func(string, ...any)) {
		do(giveUp, id, "worker lost")
		do(`UPDATE connectors SET status = 'PENDING', run_id = $2, failure_count = failure_count + 1 WHERE id = $1`, id, run)
		do(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
			SELECT $2, id, user_id, type, 'rescue', clock_timestamp(), clock_timestamp(), clock_timestamp(), config_version
			FROM connectors WHERE id = $1`, id, run)
	})
	return run
}

// together makes several statements one transaction, which may write what only moves write.
func (l *lab) together(work func(do func(query string, args ...any))) {
	l.t.Helper()
	tx, err := l.pool.Begin(ctx)
	require.NoError(l.t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	do := func(query string, args ...any) {
		l.t.Helper()
		_, err := tx.Exec(ctx, query, args...)
		require.NoError(l.t, err)
	}
	do(`SELECT set_config('echomind.moving', 'on', true)`)
	work(do)
	require.NoError(l.t, tx.Commit(ctx))
}

// fail ends a run with an error: transient or permanent by its worker, rescue where the worker is lost again, lost where
// documents are.
func (l *lab) fail(id int32, kind string) {
	l.t.Helper()
	switch kind {
	case "transient", "permanent":
		l.do(`SELECT moves.fail(id, try_id, $2, 'it failed') FROM open_runs WHERE connector_id = $1`, id, kind)
	case "rescue":
		l.together(func(do func(string, ...any)) {
			do(giveUp, id, "worker lost")
			do(`SELECT moves.put(ARRAY[f]) FROM (SELECT c::connectors AS c FROM connectors c WHERE id = $1) o,
				LATERAL moves.failed(jsonb_populate_record(o.c, '{"run_id": null}'), false) f`, id)
		})
	case "lost":
		l.together(func(do func(string, ...any)) {
			do(giveUp, id, "lost in transit")
			do(`UPDATE connectors SET status = 'ERROR', run_id = NULL, next_sync_at = clock_timestamp(), due_reason = 'lost' WHERE id = $1`, id)
		})
	}
}

// finish completes a run that had nothing to store, after somebody has picked it up.
func (l *lab) finish(id int32, run uuid.UUID, version int) {
	l.t.Helper()
	var waits bool
	l.ask(&waits, `SELECT try_id IS NULL FROM open_runs WHERE id = $1`, run)
	if waits {
		l.pickUp(id, time.Hour)
	}
	l.do(`UPDATE open_runs SET total = 0, whole = true, reason = 'nothing had changed', new_state = jsonb_build_object('version', $2::int)
		WHERE id = $1`, run, version)
	l.do(`SELECT * FROM moves.complete($1)`, run)
}

// trigger asks for a sync of every connector.
func (l *lab) trigger() {
	l.t.Helper()
	l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp()`)
}

// disable switches a connector off.
func (l *lab) disable(id int32) {
	l.t.Helper()
	l.do(`SELECT moves.disable($1)`, id)
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
