//go:build !race

package semantic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

func (f *fixture) eventually(holds string, args ...any) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return one[bool](f, holds, args...) }, soon, 20*time.Millisecond, holds)
}

// publishesJob does what the scheduler does with a system job that is due.
func (f *flow) publishesJob(jobType string) uuid.UUID {
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
	return run
}

// asks publishes a system job, and waits for the verdict. It returns what the ledger has of it.
func (f *flow) asks(jobType string) string {
	f.t.Helper()
	run := f.publishesJob(jobType)
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
	f.exec(`INSERT INTO resource_locks (key, epoch, run_id, connector_id, ttl, acquired_at, expires_at, try_id, ask)
		SELECT 'k' || i, 1, gen_random_uuid(), 1, '1 minute', clock_timestamp(), clock_timestamp() - interval '2 hours', gen_random_uuid(), 1 FROM generate_series(1, $1::int + 1) i`, sweepRows)
	require.Equal(t, fmt.Sprintf(`completed | {"locks_forgotten": %d, "workers_forgotten": 1}`, sweepRows+1), f.asks("lease_sweep"))
	require.Equal(t, `completed | {"connectors_left": 0, "connectors_swept": 1}`, f.asks("orphan_sweep"))
	require.Zero(t, f.count("documents"))
	require.Equal(t, `skipped | no search index is kept outside Postgres`, f.asks("search_index_review"))
	require.Equal(t, `completed | {"runs": [], "expired": 0}`, f.asks("lease_report"))
}

func TestOneSystemJobThatCannotBeAddedKeepsNoOtherFromBeingWorkedOff(t *testing.T) {
	f := newFlow(t)
	f.exec(`ALTER TABLE connector_types ADD CONSTRAINT not_this_one CHECK (name <> 'ledger_retention')`)
	require.ErrorContains(t, f.addSystemJobs(ctx), "add the system job ledger_retention")
	f.runs()
	require.Contains(t, f.asks("lease_sweep"), "completed")
	require.Equal(t, int64(5), f.count("connectors"))
	f.exec(`ALTER TABLE connector_types DROP CONSTRAINT not_this_one`)
	f.eventually(`SELECT count(*) = 6 FROM connectors`)
	require.Contains(t, f.asks("ledger_retention"), "completed")
}

func TestADeletedConnectorThatCannotBeSweptIsAWarningAndHoldsUpNoLaterDeletion(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.asks("orphan_sweep")
	held := f.synced(map[string]string{"a": "old"})
	f.exec(`DELETE FROM connectors WHERE id = $1`, held.connector)
	release := f.holds(`SELECT FROM documents WHERE connector_id = $1 FOR UPDATE`, held.connector)
	require.Regexp(t, `^completed \| \{"connectors_left": 1, "connectors_swept": 0\} \| .*sweep connector \d+: `, f.asks("orphan_sweep"))
	require.True(t, one[bool](f.fixture, `SELECT attempts > 0 AND next_at >= deleted_at + interval '2 s' FROM deleted_connectors`), "it is left alone for a while")
	f.exec(`UPDATE deleted_connectors SET next_at = clock_timestamp() + interval '1 hour'`)
	require.False(t, one[bool](f.fixture, `SELECT moves.hurry_orphan_sweep()`), "no run comes for it alone")
	f.exec(`UPDATE deleted_connectors SET deleted_at = clock_timestamp() - interval '7 hours'`)
	require.NoError(t, inTime(f.HurryOrphanSweep))
	require.InDelta(t, 7*3600, testutil.ToFloat64(f.metrics.deletion), 600, "seconds, of the oldest")
	other := f.synced(map[string]string{"a": "mine"})
	f.exec(`DELETE FROM connectors WHERE id = $1`, other.connector)
	f.eventually(`SELECT due_at <= clock_timestamp() FROM connectors WHERE type = 'orphan_sweep'`)
	require.Contains(t, f.asks("orphan_sweep"), `"connectors_swept": 1`)
	require.Empty(t, other.documents())
	release()
	f.exec(`UPDATE deleted_connectors SET next_at = clock_timestamp()`)
	require.Equal(t, `completed | {"connectors_left": 0, "connectors_swept": 1}`, f.asks("orphan_sweep"))
	require.NoError(t, inTime(f.HurryOrphanSweep))
	require.Zero(t, testutil.ToFloat64(f.metrics.deletion))
}

func TestASystemJobThatIsAtWorkHoldsNoStopUp(t *testing.T) {
	f := newFlow(t)
	f.config.ShutdownGraceSeconds = 3600
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(serving) }()
	f.eventually(`SELECT count(*) = 6 FROM connectors WHERE scope = 'system'`)
	f.exec(`CREATE OR REPLACE FUNCTION moves.keep_ledger(retention interval, OUT dropped integer, OUT removed integer) LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_sleep(0.1); dropped := 0; removed := 5000; END $$`)
	run := f.publishesJob("ledger_retention")
	f.eventually(`SELECT EXISTS (SELECT ` + keeping + `)`) // a run that is picked up, and not begun, is released
	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(soon):
		t.Fatal("it goes on with what never ends")
	}
	require.Equal(t, "superseded | postponed", one[string](f.fixture, `SELECT concat_ws(' | ', status, reason) FROM runs WHERE id = $1`, run))
}

func TestEachSystemJobHasANameThatNoTypeOfAUserMayHave(t *testing.T) {
	f := newFixture(t)
	for _, job := range f.systemJobs() {
		_, err := f.pool.Exec(ctx, `INSERT INTO connector_types (name, kind) VALUES ($1, 'job')`, job.connectorType)
		require.ErrorContains(t, err, "connector_types_name_is_the_systems")
	}
}

func TestTheSweepOfDeletedConnectorsEndsWhenItsTimeIsOver(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		c := f.synced(map[string]string{"a": "zebra"})
		f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	}
	for left := int64(2); left >= 0; left-- {
		done, err := f.SweepDeletedConnectors(ctx, time.Now())
		require.NoError(t, err)
		require.Equal(t, DeletedSwept{Whole: 1, More: true}, done)
		require.Equal(t, left, f.count("deleted_connectors"))
	}
}

func TestTheSweepOfADeletedConnectorIsDueAtOnce(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.asks("orphan_sweep")
	gone := f.synced(map[string]string{"a": "zebra"})
	require.False(t, one[bool](f.fixture, `SELECT due_at <= clock_timestamp() FROM connectors WHERE type = 'orphan_sweep'`))
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	f.eventually(`SELECT due_at <= clock_timestamp() FROM connectors WHERE type = 'orphan_sweep'`)
	f.asks("orphan_sweep")
	require.Zero(t, f.count("documents"))
}

func TestAllSystemJobsHaveOneWorker(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.eventually(`SELECT count(*) = 1 FROM workers`)
	require.Contains(t, f.asks("lease_report"), "completed")
	require.Contains(t, f.asks("lease_sweep"), "completed")
	require.Equal(t, int64(1), f.count("workers"))
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

// week makes the ledger's week of some days ago, with runs in it, and returns its name.
func (f *fixture) week(daysAgo, runs int) string {
	f.t.Helper()
	begins := one[time.Time](f, `SELECT date_trunc('week', clock_timestamp() - make_interval(days => $1), 'UTC')`, daysAgo).UTC()
	name := "runs_" + begins.Format("20060102")
	f.exec(fmt.Sprintf(`CREATE TABLE %s PARTITION OF runs FOR VALUES FROM ('%s') TO ('%s')`, name,
		begins.Format(time.RFC3339), begins.AddDate(0, 0, 7).Format(time.RFC3339)))
	f.past(begins.Add(time.Hour), runs)
	return name
}

func (f *fixture) hasTable(name string) bool {
	f.t.Helper()
	return one[bool](f, `SELECT to_regclass($1) IS NOT NULL`, name)
}

// past adds runs that ended then.
func (f *fixture) past(ended time.Time, runs int) {
	f.t.Helper()
	f.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 1, 'file', 'manual', $1::timestamptz, $1::timestamptz, $1::timestamptz + make_interval(secs => i),
			'completed', 1 FROM generate_series(1, $2) i`, ended, runs)
}
