//go:build !race

package semantic

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

func TestADocumentIsStoredWithItsTokenLinksAndChunks(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"))
	require.Equal(t, line("a", "apple"), c.documents())
	require.Equal(t, int64(1), c.stored())
}

func TestEachDocumentOfOneStoreGetsWhatWasSaidOfItAlone(t *testing.T) {
	f := newFixture(t)
	before := f.syncing()
	typed := func(p *internalpb.DocumentPart) {
		p.Url, p.MediaType, p.Memo = "at "+p.SourceId, "text/plain", []byte(`{"of": "old"}`)
	}
	before.stores(before.doc(1, "bare", "old", typed), before.doc(2, "failed", "old", typed), before.doc(3, "gone", "old", typed), before.completed(3))
	c := before.again()
	odd := []string{`a "quoted" \ {text},`, "\u00dcn\u00efcode \u2028", "NULL", "null"}
	c.stores(
		c.doc(1, "full", "new", typed, func(p *internalpb.DocumentPart) { p.Links, p.Memo = odd, []byte(`"\u00fc"`) }),
		c.deletion(2, "gone"),
		c.doc(3, "bare", "new", func(p *internalpb.DocumentPart) { p.Title, p.Links = "", nil }),
		c.doc(4, "failed", "new", unreadable),
	)
	require.Equal(t, []string{
		`bare | stored | bare | at bare |  | hash of new | token of new | - | -`,
		`failed | failed | failed | at failed | text/plain | hash of new |  | - | unreadable`,
		`full | stored | full | at full | text/plain | hash of new | token of new | "\u00fc" | -`,
		`gone | deleted |  |  |  |  |  | - | -`,
	}, many[string](f, `SELECT concat_ws(' | ', source_id, status, title, url, media_type, content_hash, version_token, coalesce(memo::text, '-'),
		coalesce(error, '-')) FROM documents ORDER BY source_id`))
	require.Equal(t, [][]string{{}, {"to new"}, odd, {}}, many[[]string](f, `SELECT links FROM documents ORDER BY source_id`))
}

func TestAMessageTwiceChangesNothing(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	one, gone := c.doc(1, "a", "apple"), c.deletion(2, "b")
	c.stores(one, one, gone)
	before := c.documents()
	c.stores(one)
	c.stores(gone, one)
	require.Equal(t, before, c.documents())
	require.Equal(t, int64(2), c.stored())
	require.Equal(t, int64(1), f.count("chunks"))
}

func TestADocumentShowsOnlyWhenItsLastPartIsThere(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "before"}).again()
	c.stores(c.doc(2, "a", "two", part(1, 3)))
	c.stores(c.doc(3, "a", "two", part(2, 3)))
	require.Equal(t, line("a", "before"), c.documents())
	c.stores(c.doc(1, "a", "two", part(0, 3)))
	require.Equal(t, `a | stored | token of two | hash of two | {"to two"} | 3 | - | two + two + two`, c.documents())
}

func TestTwoWorkersWithTheTwoPartsOfOneDocument(t *testing.T) {
	f := newFixture(t)
	for range 20 {
		c := f.syncing()
		var workers sync.WaitGroup
		begin := make(chan struct{})
		for i := range 2 {
			workers.Go(func() {
				<-begin
				if err := c.handles(c.doc(int64(1+i), "a", "x", part(i, 2))); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		workers.Wait()
		require.Equal(t, `a | stored | token of x | hash of x | {"to x"} | 2 | - | x + x`, c.documents())
	}
}

func TestASmallerNumberOfTheSessionDoesNotReplace(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(2, "a", "later"), c.deletion(4, "b"))
	c.stores(c.doc(1, "a", "earlier"), c.doc(3, "b", "earlier"))
	require.Equal(t, line("a", "later"), c.documents())
	require.Equal(t, int64(4), c.stored(), "it counts all the same")
	c.stores(c.doc(5, "a", "latest"))
	require.Equal(t, line("a", "latest"), c.documents())
}

func TestANewVersionReplacesTheChunksOfTheOld(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "old"}).again()
	c.stores(c.doc(1, "a", "new"))
	require.Equal(t, line("a", "new"), c.documents())
	require.Equal(t, int64(1), f.count("chunks"))
}

func TestAFailedDocumentKeepsItsChunksUnderTheSameConfigurationAlone(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "old"}).again()
	c.stores(c.doc(1, "a", "new", unreadable))
	require.Equal(t, `a | failed |  | hash of new | {"to new"} | 1 | unreadable | old`, c.documents())

	f.exec(`UPDATE connectors SET config = '{"other":true}' WHERE id = $1`, c.connector)
	c = c.again()
	c.stores(c.doc(1, "a", "new", unreadable))
	require.Equal(t, `a | failed |  | hash of new | {"to new"} | 0 | unreadable`, c.documents())
	require.Zero(t, f.count("chunks"))
}

func TestATouchedDocumentKeepsItsChunks(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "old"}).again()
	c.stores(c.doc(1, "a", "touch", touched("hash of old", "v2")))
	require.Equal(t, `a | stored | v2 | hash of old | {"to touch"} | 1 | - | old`, c.documents())
	c.stores(c.doc(2, "a", "touch", touched("hash of old", "v3")))
	require.Equal(t, `a | stored | v3 | hash of old | {"to touch"} | 1 | - | old`, c.documents())
}

func TestATouchOfOtherContentIsFetchedAgain(t *testing.T) {
	f := newFixture(t)
	// No token, so that it is fetched; no hash, so that it is not taken for unchanged then.
	const mended = "the content to keep is not what is stored; it is fetched again"
	c := f.synced(map[string]string{"a": "old"}).again()
	c.stores(c.doc(1, "a", "x", touched("hash of another", "v2")), c.doc(2, "never stored", "x", touched("hash", "v2")))
	require.Equal(t, `a | failed |  |  | {"to x"} | 1 | `+mended+` | old`+"\n"+
		`never stored | failed |  |  | {"to x"} | 0 | `+mended, c.documents())
}

func TestATouchNeverTakesAFailureForItsContent(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "old"}).again()
	c.stores(c.doc(1, "a", "new", unreadable), c.completed(1)) // failed with the hash of "new", still showing "old"
	c = c.again()
	c.stores(c.doc(1, "a", "x", touched("hash of new", "v2")))
	require.Contains(t, c.documents(), "a | failed |  |  |")
}

func TestATouchUnderAnotherConfigurationKeepsNothing(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "old"})
	f.exec(`UPDATE connectors SET config = '{"other":true}' WHERE id = $1`, c.connector)
	c = c.again()
	c.stores(c.doc(1, "a", "x", touched("hash of old", "v2")))
	require.Contains(t, c.documents(), "a | failed |  |  |")
	require.Zero(t, f.count("chunks"))
}

func TestADeletionHidesAtOnceAndIsSweptAfterTheRun(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple", "b": "banana"}).again()
	c.stores(c.deletion(1, "a"))
	require.Equal(t, line("b", "banana"), c.documents())
	require.Empty(t, f.finds(Reader{UserID: 1}, "apple"))
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, int64(2), f.count("documents"), "while the run is open the row says what was deleted")
	c.stores(c.completed(1))
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, []string{"b"}, many[string](f, `SELECT source_id FROM documents`))
	require.Equal(t, int64(1), f.count("chunks"))
}

func TestADeletedDocumentMayComeBack(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).again()
	c.stores(c.deletion(1, "a"))
	c.stores(c.doc(2, "a", "apricot"))
	require.Equal(t, line("a", "apricot"), c.documents())
}

func TestAMessageThatPostgresCouldNotStoreIsRefused(t *testing.T) {
	c := trip{}
	for reason, bad := range map[string]*internalpb.DocumentProcessRequest{
		"body is empty":                     c.message(1),
		"number 0: a document's":            c.doc(0, "a", "x"),
		"number 0: a deletion's":            c.deletion(0, "a"),
		"number 3 is none of 2 parts":       c.doc(3, "a", "x", func(p *internalpb.DocumentPart) { p.FirstNo, p.Parts = 1, 2 }),
		"source_id has 0 bytes":             c.doc(1, "", "x"),
		"source_id has 5000":                c.deletion(1, strings.Repeat("x", 5000)),
		"source_id has 1 bytes":             c.deletion(1, "\x00"),
		`document "a" holds a NUL byte`:     c.doc(1, "a", "\x00"),
		`document "title" holds a NUL byte`: c.doc(1, "title", "x", func(p *internalpb.DocumentPart) { p.Title = "\x00" }),
		`document "path" holds a NUL`:       c.doc(1, "path", "x", func(p *internalpb.DocumentPart) { p.Chunks[0].HeadingPath = []string{"\x00"} }),
		`document "link" holds a NUL`:       c.doc(1, "link", "x", func(p *internalpb.DocumentPart) { p.Links = []string{"\x00"} }),
		"total -1":                          c.completed(-1),
	} {
		require.ErrorContains(t, check(bad), reason)
	}
}

func TestAPartThatBreaksALimitIsRefusedWithFieldAndLimitAndItsDocumentFails(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	long := func(n int) string { return strings.Repeat("x", n+1) }
	bad := map[string]func(*internalpb.DocumentPart){
		"title has 1025 bytes: at most 1024":                                                         func(p *internalpb.DocumentPart) { p.Title = long(1024) },
		"url has 4097 bytes: at most 4096":                                                           func(p *internalpb.DocumentPart) { p.Url = long(4096) },
		"version_token has 2049 bytes: at most 2048":                                                 func(p *internalpb.DocumentPart) { p.VersionToken = long(2048) },
		"a link has 4097 bytes: at most 4096":                                                        func(p *internalpb.DocumentPart) { p.Links = []string{"short", long(4096)} },
		"a chunk's text has 65537 bytes: at most 65536":                                              func(p *internalpb.DocumentPart) { p.Chunks[0].Text = long(64 << 10) },
		"keep_chunks beside 1 chunks: send none":                                                     func(p *internalpb.DocumentPart) { p.KeepChunks = true },
		"chunk_count 2, first_chunk 0 and 1 chunks: a document of 1 part brings all of them, from 0": func(p *internalpb.DocumentPart) { p.ChunkCount = 2 },
		"chunks 1 to 1: chunk_count says 1":                                                          func(p *internalpb.DocumentPart) { p.Parts, p.FirstChunk = 2, 1 },
	}
	var no int64
	for why, change := range bad {
		no++
		m := c.doc(no, why, "x", change)
		require.ErrorIs(t, check(m), errDocument, why)
		require.ErrorContains(t, check(m), why)
		if m.GetPart().Parts == 1 {
			f.publishes(m)
		} else {
			no--
		}
	}
	f.publishes(c.doc(no+1, "at the limits", "x", func(p *internalpb.DocumentPart) {
		p.Title, p.Url, p.VersionToken, p.Links = long(1023), long(4095), long(2047), []string{long(4095)}
	}), c.completed(no+1))
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.Len(t, f.letters(), int(no))
	require.Equal(t, no, f.count("documents WHERE status = 'failed' AND error LIKE 'given up: the document is refused: ' || source_id || '%'"))
	require.Equal(t, int64(1), f.count("documents WHERE status = 'stored'"))
	require.Contains(t, one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String(),
		"the run goes on without them")
}
