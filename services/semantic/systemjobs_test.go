package semantic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/testonly/movestest"
)

// serving starts the service, and waits until its system jobs are there.
func (f *flow) serving() {
	f.t.Helper()
	f.runs()
	f.eventually(`SELECT count(*) = 6 FROM connectors WHERE scope = 'system'`)
}

func (f *flow) eventually(holds string, args ...any) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return one[bool](f.fixture, holds, args...) }, soon, 20*time.Millisecond, holds)
}

// asks does what the scheduler does with a system job that is due, and waits for the verdict. It returns what the ledger has of it.
func (f *flow) asks(jobType string) string {
	f.t.Helper()
	id := one[int32](f.fixture, `SELECT id FROM connectors WHERE type = $1 AND scope = 'system'`, jobType)
	run := movestest.Claim(f.t, f.pool, id)
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: id, Type: publicpb.ConnectorType_CONNECTOR_TYPE_CUSTOM, TypeName: jobType, Scope: publicpb.ConnectorScope_CONNECTOR_SCOPE_SYSTEM,
		ChunkingSession: run.String(), ConfigVersion: one[int64](f.fixture, `SELECT config_version FROM connectors WHERE id = $1`, id),
	})
	require.NoError(f.t, err)
	_, err = f.js.Publish(ctx, "connector.sync."+jobType, data)
	require.NoError(f.t, err)
	f.eventually(`SELECT EXISTS (SELECT FROM runs WHERE id = $1)`, run)
	return one[string](f.fixture, `SELECT concat_ws(' | ', status, reason, error_message, result::text, nullif(warnings, '{}')::text) FROM runs WHERE id = $1`, run)
}

func TestEachSystemJobHasItsVerdictAndItsResultInTheLedger(t *testing.T) {
	f := newFlow(t)
	f.serving()
	old := f.week(110, 5)
	f.exec(`INSERT INTO audit (at, source, login, person, action, object_id) VALUES (clock_timestamp() - interval '400 days', 'sql', 'x', 'x', 'x', 'x')`)
	f.exec(`INSERT INTO workers (id, expires_at) VALUES (gen_random_uuid(), clock_timestamp() - interval '2 hours')`)
	gone := f.synced(map[string]string{"a": "zebra"})
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	require.Equal(t, `completed | {"rows_removed": 0, "weeks_dropped": 1}`, f.asks("ledger_retention"))
	require.False(t, f.hasTable(old))
	require.Regexp(t, `^completed \| \{"rows_removed": \d+\}$`, f.asks("audit_retention"))
	require.Equal(t, `completed | {"workers_forgotten": 1}`, f.asks("lease_sweep"))
	require.Equal(t, `completed | {"connectors_left": 0, "connectors_swept": 1}`, f.asks("orphan_sweep"))
	require.Zero(t, f.count("documents"))
	require.Equal(t, `skipped | no search index is kept outside Postgres`, f.asks("search_index_review"))
	require.Equal(t, `completed | {"runs": [], "expired": 0}`, f.asks("lease_report"))
}

func TestASystemJobThatFailsFailsAloneAndIsTriedAgain(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.exec(`CREATE OR REPLACE FUNCTION moves.keep_ledger(retention interval, OUT dropped integer, OUT removed integer) LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'the ledger is poisoned'; END $$`)
	require.Contains(t, f.asks("ledger_retention"), "failed | transient failure | keep the ledger: ERROR: the ledger is poisoned")
	require.True(t, one[bool](f.fixture, `SELECT status = 'ERROR' AND due_reason = 'retry' AND failure_count = 1 FROM connectors WHERE type = 'ledger_retention'`))
	require.Contains(t, f.asks("lease_sweep"), "completed")
	require.Equal(t, int64(1), one[int64](f.fixture, `SELECT count(*) FROM connectors WHERE failure_count > 0`))
	c := f.syncing()
	c.stores(c.doc(1, "a", "zebra"), c.completed(1))
	require.Equal(t, "completed", c.verdict())
}

func TestTwoSemanticsThatStartAtOnceAddEachSystemJobOnceAndLeaveWhatAnAdministratorHasSaid(t *testing.T) {
	f := newFixture(t)
	other := f.service(f.connects())
	ended := make(chan error, 2)
	for _, s := range []*Semantic{f.Semantic, other} {
		go func() { ended <- s.addSystemJobs(ctx) }()
	}
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	require.Equal(t, int64(6), f.count("connectors"))
	f.exec(`SELECT moves.disable(id) FROM connectors WHERE type = 'lease_report'`)
	f.exec(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = '0 3 * * *' WHERE type = 'orphan_sweep'`)
	require.NoError(t, other.addSystemJobs(ctx))
	require.Equal(t, int64(1), one[int64](f, `SELECT count(*) FROM connectors WHERE status = 'DISABLED' AND type = 'lease_report'`))
	require.Equal(t, int64(1), one[int64](f, `SELECT count(*) FROM connectors WHERE schedule_cron = '0 3 * * *' AND refresh_freq_minutes IS NULL`))
	require.Equal(t, int64(6), f.count("connectors"))
}

func TestTheLeaseReportNamesRunsWhoseWorkerIsSilent(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.addSystemJobs(ctx))
	c := f.syncing()
	f.exec(`INSERT INTO workers (id, expires_at) VALUES (gen_random_uuid(), clock_timestamp() - interval '1 minute')`)
	f.exec(`UPDATE open_runs SET worker_id = (SELECT id FROM workers ORDER BY expires_at LIMIT 1) WHERE id = $1`, c.session)
	found, err := f.queries.ExpiredLeases(ctx, reportedLeases)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, c.session, found[0].ID)
	require.EqualValues(t, 1, found[0].InAll)
}
