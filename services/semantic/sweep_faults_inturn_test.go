//go:build !race

package semantic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

func TestASweepBetweenTwoPartsTakesNothingOfTheirDocument(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "old", "gone": "old"}).reconfigured().again()
	c.stores(c.deletion(1, "never there"), c.completed(1)) // the first run of the new configuration: what it did not bring is outdated
	c = c.again()
	for _, id := range []string{"a", "new"} { // one that is there, and is outdated, and one that is not
		first := int64(1)
		if id == "new" {
			first = 3
		}
		c.stores(c.doc(first, id, "zebra one", part(0, 2)))
	}
	f.sweeps()
	require.Equal(t, []string{"a", "new"}, many[string](f, `SELECT source_id FROM documents ORDER BY 1`))
	c.stores(c.doc(2, "a", "zebra one", part(1, 2)))
	c.stores(c.doc(4, "new", "zebra one", part(1, 2)))
	c.stores(c.completed(4))
	f.sweeps()
	require.Equal(t, "completed", c.verdict())
	whole := `%[1]s | stored | token of zebra one | hash of zebra one | {"to zebra one"} | 2 | - | zebra one + zebra one`
	require.Equal(t, fmt.Sprintf(whole, "a")+"\n"+fmt.Sprintf(whole, "new"), c.documents())
	require.Equal(t, []string{"a", "a", "new", "new"}, f.finds(Reader{UserID: 1}, "zebra"), "every chunk")
}

func TestADeletedConnectorThatCannotBeSweptHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	held, other := f.synced(map[string]string{"a": "old"}), f.synced(map[string]string{"a": "old"})
	f.exec(`DELETE FROM connectors`)
	release := f.holds(`SELECT FROM documents WHERE connector_id = $1 FOR UPDATE`, held.connector)
	require.ErrorContains(t, f.sweepDeletedConnectors(ctx), fmt.Sprintf("sweep connector %d", held.connector))
	require.NotEmpty(t, held.documents())
	require.Empty(t, other.documents())
	release()
	require.NoError(t, f.sweepDeletedConnectors(ctx))
	require.Empty(t, held.documents())
	require.Zero(t, f.count("deleted_connectors"))
}

func TestASweepThatDiesHalfWayGoesOnAtItsPlace(t *testing.T) {
	f := newFixture(t)
	c := f.narrowed(5_000)
	f.exec(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it dies'; END $$`)
	f.exec(`CREATE TRIGGER die BEFORE DELETE ON documents FOR EACH ROW WHEN (OLD.source_id = 'page 003500') EXECUTE FUNCTION die()`)
	require.ErrorContains(t, f.Sweep(ctx), "it dies")
	place := one[string](f, `SELECT place->>'after' FROM unswept_runs WHERE run_id = $1`, c.session)
	require.Greater(t, place, "page 002900")
	require.Less(t, place, "page 003500")
	f.exec(`INSERT INTO documents (connector_id, source_id, status, config_version) VALUES ($1, 'before the place', 'stored', 1)`, c.connector)
	f.exec(`DROP TRIGGER die ON documents`)
	f.due()
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, []string{"a", "before the place"}, many[string](f, `SELECT source_id FROM documents ORDER BY 1`), "nothing is read twice")
	require.Zero(t, f.count("unswept_runs"))
}

func TestASweepOfAProcessThatDiedIsTakenUpByAnother(t *testing.T) {
	f := newFixture(t)
	c := f.narrowed(10)
	_, err := f.queries.TakeUnswept(ctx, dbgen.TakeUnsweptParams{Held: sweepHeld, Batch: sweepRuns})
	require.NoError(t, err)
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, int64(11), f.count("documents"), "somebody is at it")
	require.True(t, one[bool](f, `SELECT next_at <= clock_timestamp() + interval '1 minute' FROM unswept_runs`))
	f.due()
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, line("a", "new"), c.documents())
}

func TestALargeSweepLeavesOthersTheirTurn(t *testing.T) {
	f := newFixture(t)
	large := f.narrowed(3_000)
	runs, err := f.queries.TakeUnswept(ctx, dbgen.TakeUnsweptParams{Batch: sweepRuns})
	require.NoError(t, err)
	require.ErrorIs(t, f.sweepSteps(ctx, runs[0], &sweepPlace{}, time.Now()), errMore, "its share is over after one page")
	require.Equal(t, int64(2_002), f.count("documents"), "one of the page is of this configuration")
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, line("a", "new"), large.documents())
}

func TestASweepEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	f.narrowed(10)
	gone := f.synced(map[string]string{"a": "old"})
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, look := range map[string]func(context.Context) error{
		"sweep": f.Sweep, "deleted": f.sweepDeletedConnectors, "chunks": f.SweepChunks, "ledger": func(ctx context.Context) error {
			_, err := f.KeepLedger(ctx, time.Now().Add(soon))
			return err
		}, "index": f.SweepIndex,
	} {
		asked := f.servers.Pool.Stat().AcquireCount()
		_ = look(ended)
		require.Equal(t, asked, f.servers.Pool.Stat().AcquireCount(), "%s asks Postgres nothing", name)
	}
	f.due()
	f.sweeps()
	require.Equal(t, int64(1), f.count("documents"))
}
