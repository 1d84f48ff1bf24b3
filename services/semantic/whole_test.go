package semantic

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A worker that found its source closed has listed nothing, whatever its sync completed says.
func TestASkippedRunOfANewConfigurationSweepsNothing(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple", "b": "banana"})
	f.exec(`UPDATE connectors SET config = '{"root": "/same/with/a/comma"}' WHERE id = $1`, c.connector)
	for _, notes := range []int64{0, 1} { // a checkpoint brings no document
		c = c.again()
		if notes > 0 {
			c.stores(c.checkpoint(1, 1))
		}
		c.stores(c.completed(notes))
		require.Equal(t, "skipped", c.verdict())
		require.NoError(t, inTime(f.Sweep))
		require.Equal(t, []string{"a", "b"}, f.stored(c))
	}
	c = c.again()
	c.stores(c.doc(1, "a", "apple"), c.completed(1))
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, []string{"a"}, f.stored(c), "the first run that has listed anything")
}

// stored are the ids of a connector's documents.
func (f *fixture) stored(c trip) []string {
	f.t.Helper()
	return many[string](f, `SELECT source_id FROM documents WHERE connector_id = $1 AND status <> 'deleted' ORDER BY 1`, c.connector)
}
