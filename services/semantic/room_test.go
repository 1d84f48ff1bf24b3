package semantic

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/proto/gen/internalpb"
)

// may sets how much an owner may have stored; 0 is everybody.
func (f *fixture) may(owner int, column string, most any) {
	f.t.Helper()
	f.exec(`INSERT INTO owner_quotas (user_id, `+column+`) VALUES ($1, $2) ON CONFLICT (user_id) DO UPDATE SET `+column+` = EXCLUDED.`+column,
		owner, most)
	f.later()
}

// later is when what owners have is asked for again.
func (f *fixture) later() { clear(f.rooms.owners) }

// wronglyCounted are connectors of which document_counts says something else than documents.
func (f *fixture) wronglyCounted() []string {
	f.t.Helper()
	return many[string](f, `SELECT format('connector %s: %s documents, %s rows, %s bytes too many', connector_id, sum(documents), sum(rows), sum(text_bytes)) FROM (
		SELECT connector_id, documents, rows, text_bytes FROM document_counts UNION ALL
		SELECT connector_id, -count(*) FILTER (WHERE status = 'stored' OR try_id IS NOT NULL), -count(*), -sum(text_bytes) FROM documents GROUP BY 1) n
		GROUP BY connector_id HAVING sum(documents) <> 0 OR sum(rows) <> 0 OR sum(text_bytes) <> 0`)
}

// status is of each document, and what it says where it failed.
func (c trip) statuses() string {
	c.f.t.Helper()
	return strings.Join(many[string](c.f, `SELECT concat_ws(' ', source_id, status, left(error, 46)) FROM documents WHERE connector_id = $1 ORDER BY 1`,
		c.connector), "\n")
}

const (
	tooMany = " failed not stored: user_id 1 has as many documents as"
	tooLong = " failed not stored: user_id 1 may have 20 bytes of tex"
)

func TestAnOwnerStoresNoMoreDocumentsThanTheQuota(t *testing.T) {
	f := newFixture(t)
	f.may(0, "max_documents", 3)
	c, other := f.synced(map[string]string{"a": "apple", "b": "banana"}), f.syncing("user_id = 2")
	d := f.syncing()
	d.stores(d.doc(1, "c", "cherry"), d.doc(2, "d", "date"), d.completed(2))
	require.Equal(t, "completed", d.verdict(), "its neighbours are stored")
	require.Equal(t, "c stored\nd"+tooMany, d.statuses())
	other.stores(other.doc(1, "d", "date"), other.completed(1))
	require.Equal(t, line("d", "date"), other.documents())

	c = c.again()
	c.stores(c.doc(1, "a", "apple pie"), c.doc(2, "b", "x", touched("hash of banana", "v2")), c.completed(2))
	require.Equal(t, "a stored\nb stored", c.statuses(), "what is there may change")

	c = c.again()
	c.stores(c.deletion(1, "b"), c.completed(1))
	f.later()
	d = d.again()
	d.stores(d.doc(1, "d", "date"), d.completed(1))
	require.Equal(t, "c stored\nd stored", d.statuses(), "a deletion makes room for what failed")
	require.Empty(t, f.wronglyCounted())
}

func TestAnOwnerStoresNoMoreTextThanTheQuota(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_text_bytes", 20)
	c := f.synced(map[string]string{"a": strings.Repeat("a", 10)}).again()
	c.stores(c.doc(1, "b", strings.Repeat("ä", 6)), c.doc(2, "c", strings.Repeat("c", 10)), c.doc(3, "a", strings.Repeat("a", 21)), c.completed(3))
	documents := strings.Split(c.documents(), "\n")
	require.Contains(t, documents[0], "a | failed |")
	require.Contains(t, documents[0], "| aaaaaaaaaa", "what was stored stays")
	require.Equal(t, "b"+tooLong, strings.Split(c.statuses(), "\n")[1])
	require.Equal(t, line("c", "cccccccccc"), documents[2])

	c = c.again()
	c.stores(c.doc(1, "a", "aa"), c.completed(1))
	f.later()
	c = c.again()
	c.stores(c.doc(1, "b", "bbbbbbbb"), c.completed(1))
	require.Equal(t, "a stored\nb stored\nc stored", c.statuses())
	require.Empty(t, f.wronglyCounted())
}

func TestADocumentOfSeveralPartsIsCountedWhole(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_text_bytes", 20)
	c := f.syncing()
	for no, id := range []string{"a", "a", "b", "b", "b"} {
		i, n := no, 2
		if id == "b" {
			i, n = no-2, 3
		}
		c.stores(c.doc(int64(no)+1, id, "1234567", part(i, n)))
	}
	c.stores(c.completed(5))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, "a stored\nb"+tooLong, c.statuses())
	require.EqualValues(t, 14, one[int64](f, `SELECT text_bytes FROM documents WHERE source_id = 'a'`))
	require.EqualValues(t, 2, f.count("chunks"), "nothing is kept of what has no room")
	require.Empty(t, f.wronglyCounted())
}

// Nothing is lost by it: the cursor stays.
func TestARunFailsWhoseOwnerHasTwiceAsManyRowsAsDocumentsAreAllowed(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 1)
	c := f.synced(map[string]string{"a": "apple"})
	state := one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector)
	f.later()
	c = c.again()
	c.stores(c.doc(1, "b", "banana"))
	require.Equal(t, "a stored\nb"+tooMany, c.statuses())
	c.stores(c.doc(2, "c", "cherry"), c.completed(2))
	require.Equal(t, "failed", c.verdict())
	require.Equal(t, "nothing more is kept: user_id 1 may have 1 documents, and has twice as many with those that failed; "+
		"delete what is not needed, or have an operator raise max_documents of this user_id in owner_quotas",
		one[string](f, `SELECT error_message FROM scheduler_runs WHERE id = $1`, c.session))
	require.Equal(t, "a stored\nb"+tooMany, c.statuses())
	require.Equal(t, state, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector))
	require.Empty(t, f.wronglyCounted())
}

func TestAnOperatorGivesAnOwnerAnotherQuotaOfDocuments(t *testing.T) {
	f := newFixture(t)
	require.Equal(t, "10000000 20000000000", one[string](f, `SELECT max_documents || ' ' || max_text_bytes FROM owner_quotas WHERE user_id = 0`))
	f.may(0, "max_documents", 1)
	f.may(1, "max_documents", 0)
	f.may(2, "max_connectors", 9)
	texts := map[string]string{"a": "apple", "b": "banana"}
	require.Equal(t, "a stored\nb stored", f.synced(texts).statuses(), "0 is no bound")
	require.Contains(t, f.synced(texts, "user_id = 2").statuses(), "failed not stored: user_id 2", "what its row leaves out is as for everybody")
	f.exec(`DELETE FROM owner_quotas`)
	f.later()
	require.Equal(t, "a stored\nb stored", f.synced(texts, "user_id = 3").statuses(), "no row is no bound")
}

func TestWhatIsRolledBackTakesNoRoom(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 1)
	c := f.syncing()
	for range 3 {
		f.writing = func([]Piece) error { return errors.New("no") }
		require.Error(t, c.handles(c.doc(1, "a", "apple")))
	}
	f.writing = nil
	c.stores(c.doc(1, "a", "apple"), c.completed(1))
	require.Equal(t, line("a", "apple"), c.documents())
}

func TestWhatADeletedConnectorHadIsNotCounted(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 1)
	c := f.synced(map[string]string{"a": "apple"})
	f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	f.later()
	require.Equal(t, "b stored", f.synced(map[string]string{"b": "banana"}).statuses(), "before it is swept")
	require.NoError(t, f.SweepDeletedConnectors(ctx))
	require.EqualValues(t, 1, f.count("document_counts"), "nothing of it is left")
	require.Empty(t, f.wronglyCounted())
}

func TestWhoStoresWaitsForNobodyElsesCount(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"))
	other, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = other.Rollback(ctx) }()
	_, err = other.Exec(ctx, `UPDATE document_counts SET rows = rows`)
	require.NoError(t, err)
	c.stores(c.doc(2, "b", "banana"), c.completed(2))
	require.NoError(t, other.Commit(ctx))
	require.Empty(t, f.wronglyCounted())
	require.EqualValues(t, 2, f.count("document_counts"))
}

func TestDocumentsThatSayTheyAreLongerThanTheyAreTakeWhatTheyBring(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_text_bytes", 20)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple", func(p *internalpb.DocumentPart) { p.Chunks[0].End = 1 << 40 }), c.completed(1))
	require.EqualValues(t, 5, one[int64](f, `SELECT text_bytes FROM document_counts`))
}
