//go:build !race

package semantic

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSweepRemovesWhatAnEndedRunLeft(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).again()
	c.stores(c.doc(1, "half", "x", part(0, 2)), c.doc(3, "a", "never whole", part(0, 2)))
	f.sweeps()
	require.Equal(t, int64(3), f.count("chunks"), "an open run's parts stay")
	require.Equal(t, int64(2), f.count("run_messages"))
	f.exec(`INSERT INTO message_tries VALUES ($1, 2, 1)`, c.try)
	f.exec(`SELECT moves.disable($1)`, c.connector)
	f.sweeps()
	require.Equal(t, line("a", "apple"), c.documents())
	require.Equal(t, int64(1), f.count("chunks"))
	require.Equal(t, int64(1), f.count("documents"))
	require.Zero(t, f.count("run_messages"))
	require.Zero(t, f.count("message_tries"))
	require.Zero(t, f.count("unswept_runs"))
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
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, line("a", "apple")+"\n"+line("b", "banana"), c.documents(), "until the new configuration is synced")
	c = c.again()
	c.stores(c.doc(1, "b", "blueberry"), c.completed(1))
	f.sweeps()
	require.Equal(t, line("b", "blueberry"), c.documents())
	require.Equal(t, line("a", "avocado"), other.documents())
	require.Equal(t, int64(2), f.count("chunks"))
}

func TestOneSweepTakesEveryEndedRun(t *testing.T) {
	f := newFixture(t)
	f.exec(`INSERT INTO unswept_runs (run_id, connector_id, try_id, config_version, outdated)
		SELECT gen_random_uuid(), i, gen_random_uuid(), 1, false FROM generate_series(1, 250) i`) // many batches
	require.NoError(t, inTime(f.Sweep))
	require.Zero(t, f.count("unswept_runs"))
}

func TestTheSweepRemovesADeletedConnectorsDocumentsAndNoOthers(t *testing.T) {
	f := newFixture(t)
	gone := f.synced(map[string]string{"a": "apple", "b": "banana"})
	kept := f.synced(map[string]string{"a": "avocado"})
	f.exec(`INSERT INTO documents (connector_id, source_id, status, config_version) SELECT $1, 'page/' || i, 'stored', $2
		FROM generate_series(1, 1200) i`, gone.connector, gone.version) // more than one page
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	f.sweeps()
	require.Empty(t, gone.documents())
	require.Equal(t, line("a", "avocado"), kept.documents())
	require.Equal(t, int64(1), f.count("chunks"))
	require.Zero(t, f.count("deleted_connectors"))
	require.Equal(t, "completed", gone.verdict(), "runs outlive their connector")
}
