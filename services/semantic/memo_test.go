//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

func memo(value string) func(*internalpb.DocumentPart) {
	return func(p *internalpb.DocumentPart) { p.Memo = []byte(value) }
}

// known is what the source gets back: of each document its token, if there is one, and its memo.
func (c trip) known() string {
	c.f.t.Helper()
	return strings.Join(many[string](c.f, `SELECT concat_ws(' ', source_id, nullif(version_token, ''), coalesce(memo::text, 'nothing'))
		FROM moves.known($1, $2) ORDER BY 1`, c.session, c.try), ", ")
}

// givesUp gives a message up that could be decoded.
func (c trip) givesUp(m *internalpb.DocumentProcessRequest) {
	c.f.t.Helper()
	require.NoError(c.f.t, c.f.countPoison(ctx, delivery{request: m, try: c.of(), msg: silentMessage{}}, errPoison))
}

func TestASourceGetsBackTheMemoOfWhatIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	const odd = `{"b":1e999,"a":"\\u0000","a":[null,-0]}`
	c.stores(c.doc(1, "a", "x", memo(odd)), c.doc(2, "b", "x", memo("null")), c.doc(3, "c", "x"))
	require.Equal(t, "a token of x "+odd+", b token of x null, c token of x nothing", c.known())
}

func TestATouchAFailureAndAPutEachReplaceTheMemo(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "x", memo(`1`)))
	c.stores(c.doc(2, "a", "x", touched("hash of x", "v2"), memo(`2`)))
	require.Equal(t, "a v2 2", c.known())
	c.stores(c.doc(3, "a", "x", unreadable, memo(`3`)))
	require.Equal(t, "a 3", c.known())
	c.stores(c.doc(4, "a", "x", memo(`4`)))
	require.Equal(t, "a token of x 4", c.known())
	c.stores(c.doc(5, "a", "x"))
	require.Equal(t, "a token of x nothing", c.known())
}

func TestTheMemoOfASmallerNumberOfTheSessionDoesNotReplace(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(4, "a", "x", memo(`"later"`)), c.deletion(5, "b"))
	c.stores(c.doc(1, "a", "x", memo(`"earlier"`)), c.doc(2, "b", "x", memo(`"earlier"`)))
	c.givesUp(c.doc(3, "a", "x", memo(`"earlier"`)))
	require.Equal(t, `a token of x "later"`, c.known())
}

func TestADocumentOfSeveralPartsHasItsMemoOnceItIsWhole(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "x", memo(`"before"`)))
	c.stores(c.doc(3, "a", "y", part(1, 2), memo(`"after"`)))
	require.Equal(t, `a token of x "before"`, c.known())
	c.stores(c.doc(2, "a", "y", part(0, 2), memo(`"after"`)))
	require.Equal(t, `a token of y "after"`, c.known())
}

func TestADeletedDocumentLeavesNoMemo(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "x", memo(`1`)))
	c.stores(c.deletion(2, "a"))
	require.EqualValues(t, 1, f.count("documents WHERE memo IS NULL"))
	c.stores(c.doc(3, "a", "x", unreadable))
	require.Equal(t, "a nothing", c.known())
}

func TestAnotherConfigurationKnowsNoMemoOfBefore(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "x", memo(`1`)), c.doc(2, "b", "x", memo(`2`)), c.doc(3, "c", "x", memo(`3`)))
	c = c.reconfigured().again()
	require.Equal(t, "a nothing, b nothing, c nothing", c.known())
	c.stores(c.doc(1, "a", "x", unreadable, memo(`4`)))
	c.givesUp(c.deletion(2, "b"))
	require.Equal(t, "a 4, b nothing, c nothing", c.known(), "a deletion that is given up does not bring it back")
}

func TestWhatSemanticRefusesKeepsTheMemoItCameWith(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple", memo(`"old"`)), c.doc(2, "b", "banana", memo(`"old"`)), c.completed(2))
	f.may(1, "max_documents", 2)
	f.may(1, "max_bytes", 1)
	c = c.again()
	long := func(p *internalpb.DocumentPart) {
		p.Links = []string{strings.Repeat("x", 3000), strings.Repeat("y", 3000), strings.Repeat("z", 3000)}
	}
	c.stores(c.doc(1, "a", "apples and more", memo(`"moved"`)), c.doc(2, "b", "bananas and more", long, memo(`"moved"`)),
		c.doc(3, "new", "cherry", memo(`"new"`)), c.doc(4, "other content", "x", touched("hash of another", "v2"), memo(`"touched"`)),
		c.doc(5, "unreadable", "x", unreadable, long, memo(`"failed"`)))
	require.Equal(t, `a "moved", b "moved", new "new", other content "touched", unreadable "failed"`, c.known())
	require.EqualValues(t, 5, f.count("documents WHERE status = 'failed' AND content_hash = ''"))
	require.Equal(t, "a, b, new", one[string](f, `SELECT string_agg(source_id, ', ' ORDER BY source_id) FROM moves.known($1, $2)
		WHERE version_token = '' AND refused_token <> ''`, c.session, c.try))
	require.Empty(t, f.wronglyCounted(), "a memo takes no room")
}

func TestWhatSemanticGivesUpKeepsTheMemoItCameWith(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "x", memo(`"old"`)), c.doc(2, "gone", "x", memo(`"old"`)), c.doc(3, "parts", "x", memo(`"old"`)))
	c.givesUp(c.doc(4, "a", "x", memo(`"moved"`)))
	c.givesUp(c.doc(5, "new", "x", memo(`"new"`)))
	c.givesUp(c.deletion(6, "gone"))
	c.givesUp(c.doc(7, "parts", "x", part(0, 2), memo(`"moved"`)))
	c.givesUp(c.doc(9, "touched", "x", touched("hash of x", "v2"), memo(`"moved"`)))
	require.Equal(t, `a "moved", gone "old", new "new", parts "moved", touched "moved"`, c.known())
}

func TestWhatNamesAnotherConnectorLeavesNoMemo(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "x", memo(`"old"`)))
	bad := c.doc(2, "a", "x", memo(`"another's"`))
	bad.ConnectorId++
	require.NoError(t, f.countPoison(ctx, delivery{request: bad, try: c.of(), msg: silentMessage{}}, errEnvelope))
	require.Equal(t, `a token of x "old"`, c.known())
}

func TestABadMemoFailsItsDocumentAndTheOneThatIsStoredStays(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	bad := map[string]string{
		"big": `"` + strings.Repeat("x", 8191) + `"`, "broken": `{`, "encoded": "\"\xff\"", "nul": `["\u0000"]`, "deep": strings.Repeat("[", 101) + strings.Repeat("]", 101),
	}
	no := int64(0)
	for id := range bad {
		no++
		c.stores(c.doc(no, id, "x", memo(`"old"`)))
	}
	for id, value := range bad {
		no++
		f.publishes(c.doc(no, id, "y", memo(value)))
	}
	f.publishes(c.doc(no+1, "title", "y", memo(`"new"`), func(p *internalpb.DocumentPart) { p.Title = strings.Repeat("x", 1025) }), c.completed(no+1))
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.Len(t, f.letters(), len(bad)+1)
	c = c.again()
	require.Equal(t, `big "old", broken "old", deep "old", encoded "old", nul "old", title "new"`, c.known())
	require.Equal(t, []string{"at most 8192", "not valid JSON", "101 levels", "not UTF-8", "a NUL character"}, many[string](f.fixture,
		`SELECT substring(error FROM 'given up: the document is refused: memo .*(at most 8192|not valid JSON|101 levels|not UTF-8|a NUL character)')
			FROM documents WHERE source_id <> 'title' ORDER BY source_id`))
	require.EqualValues(t, len(bad), f.count("documents d WHERE source_id <> 'title' AND EXISTS (SELECT FROM chunks c WHERE c.document_id = d.id AND c.text = 'x')"))
}

func TestATouchOfWhatItsRunHasPutIsStoredBehindItWithinOneBatch(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.publishes(c.doc(2, "a", "x", touched("hash of x", "v2")), c.doc(1, "a", "x"))
	f.Handle(ctx, f.pulled(2))
	require.Contains(t, c.documents(), "a | stored | v2 | hash of x |")
}

// The touch is the later message: it fails for want of the content, and the put that comes behind it changes nothing.
func TestATouchThatIsStoredBeforeThePutOfItsRunFailsItsDocument(t *testing.T) {
	f := newFlow(t)
	for _, batches := range []string{"another batch", "delivered again, in the same batch"} {
		c := f.syncing()
		f.publishes(c.doc(1, "a", "x", memo(`"put"`)))
		put := f.pulled(1)
		f.publishes(c.doc(2, "a", "x", touched("hash of x", "v2"), memo(`"touched"`)))
		if batches == "another batch" {
			f.Handle(ctx, f.pulled(1))
			f.Handle(ctx, put)
		} else {
			require.NoError(t, put[0].Nak())
			f.Handle(ctx, f.pulled(2))
		}
		require.Equal(t, `a "touched"`, c.known(), batches)
		require.Contains(t, c.documents(), "a | failed |  |  |", batches)
		require.EqualValues(t, 2, c.stored(), batches)
		c.stores(c.completed(2))
		c = c.again()
		c.stores(c.doc(1, "a", "x"))
		require.Equal(t, line("a", "x"), c.documents(), "the next run mends it")
	}
}
