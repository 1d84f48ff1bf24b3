//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connector is deleted and put back under its id for another user; its first run is between two parts of one document.
func TestNothingOfADeletedConnectorIsFoundUnderItsIDWhileItsDocumentIsWrittenAnew(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"plan": "salaries of everybody, secret of user one"})
	f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	f.exec(`INSERT INTO connectors (id, name, type, user_id, refresh_freq_minutes) VALUES ($1, 'other', 'file', 2, 60)`, c.connector)
	finds := func() []Hit {
		hits, err := f.searcher().Search(ctx, Reader{UserID: 2}, "salaries secret", 10)
		require.NoError(t, err)
		return hits
	}
	require.Empty(t, finds(), "before the sweep")
	n := c.again()
	n.stores(n.doc(1, "plan", "first half of user two", part(0, 2)))
	require.NoError(t, f.sweepDeletedConnectors(ctx))
	require.Empty(t, finds(), "between two parts")
	f.exec(`SELECT moves.fail($1, $2, 'transient', 'x')`, n.session, n.try)
	require.NoError(t, inTime(f.Sweep))
	require.NoError(t, f.sweepDeletedConnectors(ctx))
	require.Empty(t, finds(), "after its run has failed")
}

func TestATitleOfADeletedConnectorIsNotItsSuccessors(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"plan": "salaries of everybody"})
	f.exec(`UPDATE documents SET title='Dismissal of Bob', url='https://one.example/secret?sig=abc'`)
	f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	f.exec(`INSERT INTO connectors (id, name, type, user_id, refresh_freq_minutes) VALUES ($1, 'other', 'file', 2, 60)`, c.connector)
	n := c.again()
	d := n.doc(1, "plan", "garden plan of user two")
	d.GetPart().Title, d.GetPart().Url = "", ""
	n.stores(d, n.completed(1))
	hits, err := f.searcher().Search(ctx, Reader{UserID: 2}, "garden plan", 10)
	require.NoError(t, err)
	require.Len(t, hits, 1)
	require.Empty(t, hits[0].Title)
}

func TestATitleOfAnEarlierConfigurationGoesWithIt(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"plan": "salaries of everybody"})
	f.exec(`UPDATE documents SET title='Dismissal of Bob', url='https://one.example/secret?sig=abc'`)
	f.exec(`UPDATE connectors SET user_id = 2, config = '{"account":"two"}' WHERE id = $1`, c.connector)
	n := c.again()
	d := n.doc(1, "plan", "garden plan of user two")
	d.GetPart().Title, d.GetPart().Url = "", ""
	n.stores(d, n.completed(1))
	require.NoError(t, inTime(f.Sweep))
	hits, err := f.searcher().Search(ctx, Reader{UserID: 2}, "garden plan", 10)
	require.NoError(t, err)
	require.Len(t, hits, 1)
	require.Empty(t, hits[0].Title)
}

func TestWhatTheFirstWholeListingDidNotBringGoesAlsoAfterAPartialOne(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"secret/a": "salaries", "public/b": "menu"})
	f.exec(`UPDATE connectors SET config = '{"folder":"public"}' WHERE id = $1`, c.connector)
	n := c.again()
	p := n.completed(1)
	p.GetCompleted().ListingWhole = false // one folder could not be listed this time
	n.stores(n.doc(1, "public/b", "menu"), p)
	require.NoError(t, inTime(f.Sweep))
	for range 3 {
		n = n.again()
		n.stores(n.doc(1, "public/b", "menu"), n.completed(1)) // listed whole
		require.NoError(t, inTime(f.Sweep))
	}
	hits, err := f.searcher().Search(ctx, Reader{UserID: 1}, "salaries", 10)
	require.NoError(t, err)
	require.Empty(t, hits)
}

func TestTheSweepEmptiesWhatTheNextRunHasBegunToWrite(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"plan": "salaries of everybody", "b": "menu"})
	f.exec(`UPDATE connectors SET user_id = 2, config = '{"account":"two"}' WHERE id = $1`, c.connector)
	n := c.again()
	n.stores(n.doc(1, "b", "menu of two"), n.completed(1)) // a whole listing: "plan" is not in it
	next := n.again()                                      // begins before the sweep comes
	next.stores(next.doc(1, "plan", "first half", part(0, 2)))
	require.NoError(t, inTime(f.Sweep))
	f.exec(`SELECT moves.fail($1, $2, 'permanent', 'x')`, next.session, next.try)
	for range 3 {
		require.NoError(t, inTime(f.Sweep))
		f.exec(`UPDATE unswept_runs SET next_at = clock_timestamp()`)
	}
	hits, err := f.searcher().Search(ctx, Reader{UserID: 2}, "salaries", 10)
	require.NoError(t, err)
	require.Empty(t, hits)
}

func TestADocumentThatIsPutAndThenTouchedIsStoredInOneBatchAsInTwo(t *testing.T) {
	for _, batched := range []bool{false, true} {
		t.Run(map[bool]string{false: "two batches", true: "one batch"}[batched], func(t *testing.T) {
			f := newFixture(t)
			c := f.synced(map[string]string{"a": "old text"}).again()
			put, touch := c.doc(1, "a", "new text"), c.doc(2, "a", "", touched("hash of new text", "t2"))
			if batched {
				c.stores(put, touch)
			} else {
				c.stores(put)
				c.stores(touch)
			}
			c.stores(c.completed(2))
			require.True(t, strings.Contains(c.documents(), "new text"))
			require.True(t, strings.Contains(c.documents(), "stored"))
		})
	}
}

func (f *fixture) searcher() *Searcher {
	return NewSearcher(f.pool, f.qdrant)
}
