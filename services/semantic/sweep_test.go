package semantic

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestTheSweepRemovesWhatAnEndedRunLeft(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).again()
	c.stores(c.doc(1, "half", "x", part(0, 2)), c.doc(3, "a", "never whole", part(0, 2)))
	require.NoError(t, f.Sweep(ctx))
	require.Equal(t, int64(3), f.count("chunks"), "an open run's parts stay")
	require.Equal(t, int64(2), f.count("run_messages"))
	f.exec(`INSERT INTO message_tries VALUES ($1, 2, 1)`, c.session)
	f.exec(`UPDATE connectors SET status = 'DISABLED' WHERE id = $1`, c.connector)
	require.NoError(t, f.Sweep(ctx))
	require.Equal(t, line("a", "apple"), c.documents())
	require.Equal(t, int64(1), f.count("chunks"))
	require.Equal(t, int64(1), f.count("documents"))
	require.Zero(t, f.count("run_messages"))
	require.Zero(t, f.count("message_tries"))
	require.Zero(t, f.count("scheduler_runs WHERE swept_at IS NULL"))
}

func TestTheSweepLeavesADocumentThatANewRunIsWriting(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).again()
	c.stores(c.deletion(1, "a"), c.completed(1))
	c = c.again()
	// The new run holds the row while the sweep looks at it, and has committed when the sweep gets it.
	locked, swept := make(chan struct{}), make(chan error, 1)
	f.writing = func([]Piece) error {
		close(locked)
		for { // until the sweep waits, or is done
			if len(swept) > 0 || one[int64](f, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0 {
				return nil
			}
		}
	}
	go func() {
		<-locked
		swept <- f.Sweep(ctx)
	}()
	c.stores(c.doc(1, "a", "apricot"))
	require.NoError(t, <-swept)
	require.Equal(t, line("a", "apricot"), c.documents())
}

func TestTheSweepRemovesWhatAnEarlierConfigurationLeft(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple", "b": "banana"})
	other := f.synced(map[string]string{"a": "avocado"})
	f.exec(`UPDATE connectors SET config = '{"folder": "another"}' WHERE id = $1`, c.connector)
	require.NoError(t, f.Sweep(ctx))
	require.Equal(t, line("a", "apple")+"\n"+line("b", "banana"), c.documents(), "until the new configuration is synced")
	c = c.again()
	c.stores(c.doc(1, "b", "blueberry"), c.completed(1))
	require.NoError(t, f.Sweep(ctx))
	require.Equal(t, line("b", "blueberry"), c.documents())
	require.Equal(t, line("a", "avocado"), other.documents())
	require.Equal(t, int64(2), f.count("chunks"))
}

func TestOneSweepTakesEveryEndedRun(t *testing.T) {
	f := newFixture(t)
	f.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 1, 'connector.sync.web', 'manual', now(), now(), now(), 'completed', 1
		FROM generate_series(1, 250) i`) // more than two batches
	require.NoError(t, f.Sweep(ctx))
	require.Zero(t, f.count("scheduler_runs WHERE swept_at IS NULL"))
}

func TestTheSweepRemovesADeletedConnectorsDocumentsAndNoOthers(t *testing.T) {
	f := newFixture(t)
	gone := f.synced(map[string]string{"a": "apple", "b": "banana"})
	kept := f.synced(map[string]string{"a": "avocado"})
	f.exec(`INSERT INTO documents (connector_id, source_id, status) SELECT $1, 'page/' || i, 'stored'
		FROM generate_series(1, 1200) i`, gone.connector) // more than one batch
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	require.NoError(t, f.Sweep(ctx))
	require.Empty(t, gone.documents())
	require.Equal(t, line("a", "avocado"), kept.documents())
	require.Equal(t, int64(1), f.count("chunks"))
	require.Zero(t, f.count("deleted_connectors"))
	require.Equal(t, "completed", gone.verdict(), "runs outlive their connector")
}

func TestTheLedgerKeepsTheLatest20RunsAndWhatIsYoung(t *testing.T) {
	f := newFixture(t)
	past := func(c trip, runs int, days int) {
		f.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, completed_at, status,
				config_version, swept_at)
			SELECT gen_random_uuid(), $1, 'j', 'manual', at, at, at, 'completed', 1, at
			FROM (SELECT clock_timestamp() - make_interval(days => $3, mins => i) AS at FROM generate_series(1, $2) i) s`,
			c.connector, runs, days)
	}
	old, few, young := f.connector(), f.connector(), f.connector()
	past(old, 30, 100)
	past(few, 5, 100)
	past(young, 30, 10)
	require.NoError(t, f.Sweep(ctx))
	rows, err := f.pool.Query(ctx, `SELECT connector_id, count(*) FROM scheduler_runs GROUP BY 1`)
	require.NoError(t, err)
	kept := map[int32]int64{}
	var id int32
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error { kept[id] = n; return nil })
	require.NoError(t, err)
	require.Equal(t, map[int32]int64{old.connector: 20, few.connector: 5, young.connector: 30}, kept)
}
