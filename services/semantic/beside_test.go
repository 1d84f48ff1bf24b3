package semantic

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// beside is the next run of a connector, which has parameters.
func (c trip) beside() trip {
	c.f.exec(`SELECT moves.trigger_sync($1, parameters => '{"url": "https://example.org/blog"}')`, c.connector)
	return c.again()
}

func TestARunWithParametersDeletesNothingAndLeavesNoStateAndItsDocumentsAreFetchedAgain(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple", "b": "berry", "c": "cherry"})
	state := one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector)
	beside := c.beside()
	require.Equal(t, "true", one[string](f, `SELECT (parameters IS NOT NULL)::text FROM open_runs`))
	beside.stores(beside.doc(1, "b", "blackberry"), beside.checkpoint(2, 1), beside.deletion(3, "a"), beside.doc(4, "c", "-", unreadable))
	require.Zero(t, f.count("run_checkpoints"))
	beside.stores(beside.doc(5, "d", "date"), beside.completed(5))
	require.Equal(t, "completed", beside.verdict())
	require.Equal(t, state, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector))
	require.Equal(t, line("a", "apple")+"\n"+`b | stored |  |  | {"to blackberry"} | 1 | - | blackberry
c | failed |  |  | {"to -"} | 1 | unreadable | cherry
d | stored |  |  | {"to date"} | 1 | - | date`, beside.documents())
	require.Equal(t, "2 stored, 1 failed, 0 deleted, 2 notes", one[string](f, `SELECT format('%s stored, %s failed, %s deleted, %s notes',
		documents_processed, documents_failed, documents_deleted, notes) FROM runs WHERE id = $1`, beside.session))
	require.Zero(t, f.count("unswept_runs WHERE outdated AND run_id = '"+beside.session.String()+"'"))

	f.exec(`SELECT moves.trigger_sync($1)`, c.connector)
	own := beside.again()
	own.stores(own.doc(1, "b", "berry"), own.deletion(2, "d"), own.completed(2))
	require.Equal(t, "completed", own.verdict())
	require.Contains(t, own.documents(), line("b", "berry"))
	require.NotContains(t, own.documents(), "date")
}

func TestARunWithParametersThatOnlyDeletesIsSkipped(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).beside()
	c.stores(c.deletion(1, "a"), c.completed(1))
	require.Equal(t, "skipped", c.verdict())
	require.Equal(t, line("a", "apple"), c.documents())
}
