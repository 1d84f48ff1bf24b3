package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/console"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// terminal is a user in front of a stack of their own.
type terminal struct {
	t      *testing.T
	lookup config.Lookup
}

type output struct {
	stdout, stderr string
	code           int
}

func newTerminal(t *testing.T) terminal {
	t.Helper()
	return terminal{t, config.Lookup{DataDir: t.TempDir(), DatabaseURL: testkit.Database(t, db.Up)}}
}

func (u terminal) withStreams() terminal {
	u.t.Helper()
	u.lookup.NATSURL = testkit.NATS(u.t).URL()
	js := testkit.JetStream(u.t, u.lookup.NATSURL)
	require.NoError(u.t, streams.EnsureStreams(context.Background(), js))
	return u
}

func (u terminal) run(args ...string) output {
	u.t.Helper()
	var stdout, stderr bytes.Buffer
	root := console.RootFor(u.lookup)
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := console.Execute(context.Background(), root)
	return output{stdout.String(), stderr.String(), code}
}

// succeed runs a command that must exit with 0 and say nothing on stderr.
func (u terminal) succeed(args ...string) string {
	u.t.Helper()
	out := u.run(args...)
	require.Equal(u.t, 0, out.code, out.stderr)
	require.Empty(u.t, out.stderr)
	return out.stdout
}

func (u terminal) json(into any, args ...string) {
	u.t.Helper()
	out := u.succeed(append(args, "-o", "json")...)
	require.NoError(u.t, json.Unmarshal([]byte(out), into), out)
}

func (u terminal) object(args ...string) (object map[string]any) {
	u.t.Helper()
	u.json(&object, args...)
	return object
}

func (u terminal) array(args ...string) []map[string]any {
	u.t.Helper()
	var array []map[string]any
	u.json(&array, args...)
	require.NotNil(u.t, array, "null is no array")
	return array
}

// folder is a configuration that type file accepts.
const folder = `{"url":"file:///srv/docs"}`

// add adds a connector and returns its id.
func (u terminal) add(args ...string) string {
	u.t.Helper()
	out := u.succeed(append([]string{"connectors", "add", "--name", "docs", "--type", "file", "--user", "1", "--config", folder}, args...)...)
	id := strings.TrimSpace(out)
	_, err := strconv.Atoi(id)
	require.NoError(u.t, err, out)
	return id
}

func (u terminal) pool() *pgxpool.Pool {
	u.t.Helper()
	pool, err := postgres.Open(context.Background(), u.lookup.DatabaseURL, "echomind-test", 2)
	require.NoError(u.t, err)
	u.t.Cleanup(pool.Close)
	return pool
}

func (u terminal) exec(sql string, args ...any) {
	u.t.Helper()
	_, err := testkit.Sessions(u.t, u.lookup.DatabaseURL).Exec(context.Background(), sql, args...)
	require.NoError(u.t, err)
}

// force runs a statement that may write what only moves write.
func (u terminal) force(sql string, args ...any) {
	u.t.Helper()
	movestest.Force(u.t, u.pool(), sql, args...)
}

// verdicts gives connector 1 a ledger: completed, failed, missed slots, and an open run.
func (u terminal) verdicts() {
	u.t.Helper()
	u.exec(`
INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, picked_up_at, fetched_at, completed_at, status, reason,
	error_message, total, stored, documents_processed, missed_count, slot, slot_last, config_version)
VALUES
	(gen_random_uuid(), 1, 'file', 'new', now() - interval '4 h', now() - interval '4 h',
		now() - interval '4 h' + interval '2 s', now() - interval '4 h' + interval '5 s', now() - interval '4 h' + interval '6 s',
		'completed', NULL, NULL, 7, 7, 7, NULL, NULL, NULL, 1),
	(gen_random_uuid(), 1, 'file', 'schedule', now() - interval '3 h', now() - interval '3 h',
		now() - interval '3 h', NULL, now() - interval '3 h' + interval '90 s',
		'failed', 'transient failure', 'no such folder', NULL, 0, 0, NULL, now() - interval '3 h', NULL, 1),
	(gen_random_uuid(), 1, 'file', 'schedule', now() - interval '2 h', now() - interval '1 h',
		NULL, NULL, now() - interval '1 h', 'missed', 'passed before it could be claimed', NULL, NULL, 0, 0, 3,
		now() - interval '2 h', now() - interval '1 h', 1)`)
	u.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		VALUES (gen_random_uuid(), 1, 1, 'file', 'manual', now() - interval '1 m', now() - interval '1 m', now() - interval '1 m', 1)`)
}
