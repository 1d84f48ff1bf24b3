package semantic

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// reconfigured is a connector whose configuration has changed since it was synced.
func (c trip) reconfigured() trip {
	c.f.t.Helper()
	c.f.exec(`UPDATE connectors SET config = jsonb_build_object('changed', clock_timestamp()) WHERE id = $1`, c.connector)
	return c
}

// due lets what could not be swept come again at once.
func (f *fixture) due() {
	f.t.Helper()
	f.exec(`UPDATE unswept_runs SET next_at = clock_timestamp()`)
}

// pages adds stored documents of a connector's configuration.
func (c trip) pages(n int) {
	c.f.t.Helper()
	c.f.exec(`INSERT INTO documents (connector_id, source_id, status, config_version)
		SELECT $1, 'page ' || lpad(i::text, 6, '0'), 'stored', $2 FROM generate_series(1, $3) i`, c.connector, c.version, n)
}

// countsDeletions has every statement that deletes documents write down how many.
func (f *fixture) countsDeletions() {
	f.t.Helper()
	f.exec(`CREATE TABLE deletions (n bigint)`)
	f.exec(`CREATE FUNCTION count_deletions() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO deletions SELECT count(*) FROM gone; RETURN NULL; END $$`)
	f.exec(`CREATE TRIGGER count_deletions AFTER DELETE ON documents REFERENCING OLD TABLE AS gone
		FOR EACH STATEMENT EXECUTE FUNCTION count_deletions()`)
}

func TestAConnectorThatIsPutBackUnderItsIDLosesOnlyItsOldDocuments(t *testing.T) {
	for name, isOpen := range map[string]bool{"while its run is open": true, "after its run": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			old := f.synced(map[string]string{"a": "old", "b": "old", "half": "old"})
			old.pages(1500)
			f.exec(`DELETE FROM connectors WHERE id = $1`, old.connector)
			f.exec(`INSERT INTO connectors (id, name, type, user_id, refresh_freq_minutes) VALUES ($1, 'again', 'file', 1, 60)`, old.connector)
			c := old.again()
			c.stores(c.doc(1, "a", "new"), c.doc(2, "half", "new", part(0, 2)), c.checkpoint(4, 4))
			if isOpen {
				f.sweeps()
				require.Equal(t, []string{"a", "half"}, many[string](f, `SELECT source_id FROM documents ORDER BY 1`))
				require.Equal(t, "SYNCING", c.status())
			}
			c.stores(c.doc(3, "half", "new", part(1, 2)))
			require.Equal(t, "4", c.page())
			c.stores(c.completed(4))
			f.sweeps()
			require.Equal(t, "ACTIVE", c.status())
			require.Contains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String())
			require.Equal(t, line("a", "new")+"\n"+`half | stored | token of new | hash of new | {"to new"} | 2 | - | new + new`, c.documents())
			require.Zero(t, f.count("deleted_connectors"))
			require.Equal(t, int64(3), f.count("chunks"))
		})
	}
}

func TestARunThatCannotBeSweptHoldsUpNoOther(t *testing.T) {
	for name, hold := range map[string]string{
		"an outdated document": `SELECT FROM documents WHERE connector_id = $1 AND source_id = 'a' FOR UPDATE`,
		"a deleted document":   `SELECT FROM documents WHERE connector_id = $1 AND source_id = 'b' FOR UPDATE`,
		"a sighting":           `SELECT FROM sightings WHERE connector_id = $1 FOR UPDATE`,
		"a counted message":    `SELECT FROM run_messages WHERE try_id = (SELECT try_id FROM unswept_runs WHERE connector_id = $1 AND outdated) FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var trips []trip
			for range 12 { // more than are taken at once; the first cannot be swept
				trips = append(trips, f.synced(map[string]string{"a": "old", "b": "old"}))
			}
			for i, c := range trips {
				trips[i] = c.reconfigured()
			}
			f.sweeps()
			for i, c := range trips {
				c = c.again()
				c.stores(c.doc(1, "c", "new", inListing(1)), c.deletion(2, "b"), c.completed(2))
				trips[i] = c
			}
			held := trips[0]
			release := f.holds(hold, held.connector)
			before := one[time.Time](f, `SELECT clock_timestamp()`)
			_ = f.Sweep(ctx) // says that it could not
			for _, c := range trips[1:] {
				require.Equal(t, line("c", "new"), c.documents())
			}
			require.Equal(t, []int32{held.connector}, many[int32](f, `SELECT connector_id FROM unswept_runs`))
			require.True(t, one[bool](f, `SELECT attempts > 0 AND next_at >= $1::timestamptz + interval '2 s' FROM unswept_runs`, before), "it lets the others pass")
			release()
			f.due()
			f.sweeps()
			require.Equal(t, line("c", "new"), held.documents())
			require.Zero(t, f.count("unswept_runs"))
			require.Zero(t, f.count("sightings")+f.count("run_messages"))
			require.Equal(t, int64(len(trips)), f.count("documents"))
			require.Equal(t, int64(len(trips)), f.count("chunks"))
		})
	}
}

// narrowed is a connector with many documents of a configuration that is not its own any more, and a run to sweep.
func (f *fixture) narrowed(documents int) trip {
	f.t.Helper()
	c := f.synced(map[string]string{"a": "old"})
	c.pages(documents)
	c = c.reconfigured()
	f.sweeps()
	c = c.again()
	c.stores(c.doc(1, "a", "new"), c.completed(1))
	return c
}

func TestANarrowedConfigurationIsSweptInPagesBesideWhichRunsComplete(t *testing.T) {
	f := newFixture(t)
	const documents = 20_000
	c := f.narrowed(documents)
	f.countsDeletions()
	swept := make(chan error, 1)
	go func() {
		for {
			err := f.Sweep(ctx)
			var left int
			if err == nil {
				err = f.pool.QueryRow(ctx, `SELECT count(*) FROM unswept_runs WHERE outdated`).Scan(&left)
			}
			if err != nil || left == 0 {
				swept <- err
				return
			}
		}
	}()
	same, beside := 0, f.connector()
	for len(swept) == 0 {
		next := c.again() // of the very connector that is swept
		next.stores(next.doc(1, "a", fmt.Sprint("new ", same)), next.completed(1))
		require.Equal(t, "completed", next.verdict())
		beside = beside.again()
		beside.stores(beside.doc(1, "a", "apple"), beside.completed(1))
		require.Equal(t, "completed", beside.verdict())
		same++
	}
	require.NoError(t, <-swept)
	require.Positive(t, same, "no run had time to complete")
	require.Equal(t, line("a", fmt.Sprint("new ", same-1)), c.documents())
	require.Equal(t, int64(documents), one[int64](f, `SELECT sum(n)::bigint FROM deletions`))
	require.LessOrEqual(t, one[int64](f, `SELECT max(n) FROM deletions`), int64(sweepPage))
}

func TestASweepWhosePlaceSaysNothingToThisVersionBeginsAnew(t *testing.T) {
	f := newFixture(t)
	for name, place := range map[string]string{
		"no object": `[1]`, "a step that is none": `{"step": 99}`, "a step below all": `{"step": -1}`, "a try that is none": `{"try": "mine"}`,
		"a number that is none": `{"no": "far"}`, "halved below nothing": `{"halved": -3}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := f.syncing()
			c.stores(c.doc(1, "a", "half", part(0, 2)), c.completed(2))
			overs["released"](c)
			f.exec(`UPDATE unswept_runs SET place = $1::jsonb`, place)
			testkit.Eventually(t, soon, func() error { // on a busy machine its share of time may be over before
				require.NoError(t, inTime(f.Sweep))
				if n := f.count("unswept_runs"); n != 0 {
					return fmt.Errorf("%d are not swept", n)
				}
				return nil
			})
			require.Zero(t, f.count("run_messages")+f.count("documents"), "everything is removed")
			c.f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
			f.exec(`INSERT INTO documents (connector_id, source_id, config_version) VALUES ($1, 'late', 0)`, c.connector)
			f.exec(`UPDATE deleted_connectors SET place = $1::jsonb`, place)
			require.NoError(t, f.sweepDeletedConnectors(ctx))
			require.Zero(t, f.count("deleted_connectors")+f.count("documents"))
		})
	}
}
