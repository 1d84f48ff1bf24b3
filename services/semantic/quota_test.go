//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

// may sets how much an owner may have stored; 0 is everybody.
func (f *fixture) may(owner int, column string, most any) {
	f.t.Helper()
	f.exec(`INSERT INTO owner_quotas (user_id, `+column+`) VALUES ($1, $2) ON CONFLICT (user_id) DO UPDATE SET `+column+` = EXCLUDED.`+column,
		owner, most)
	f.later()
}

// later is when what owners have is asked for again.
func (f *fixture) later() { clear(f.quotas.owners) }

// status is of each document, and what it says where it failed.
func (c trip) statuses() string {
	c.f.t.Helper()
	return strings.Join(many[string](c.f, `SELECT concat_ws(' ', source_id, status, left(error, 46)) FROM documents WHERE connector_id = $1 ORDER BY 1`,
		c.connector), "\n")
}

const (
	tooMany = " failed not stored: user_id 1 has as many documents as"
	tooLong = " failed not stored: user_id 1 has no room for"
)

// said is how many bytes a document of doc counts beside its text.
func said(id, text string) int { return len(id) + len("to "+text) }

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

func TestAnOwnerStoresNoMoreBytesThanTheQuota(t *testing.T) {
	f := newFixture(t)
	ten := strings.Repeat("a", 10)
	f.may(1, "max_bytes", 2*(10+said("a", ten)))
	c := f.synced(map[string]string{"a": ten}).again()
	c.stores(c.doc(1, "c", ten), c.doc(2, "b", ten+"ä"), c.doc(3, "a", ten+"b"), c.completed(3))
	documents := strings.Split(c.documents(), "\n")
	require.Contains(t, documents[0], "a | failed |")
	require.Contains(t, documents[0], "| aaaaaaaaaa", "what was stored stays")
	require.Contains(t, strings.Split(c.statuses(), "\n")[1], "b"+tooLong)
	require.Equal(t, line("c", ten), documents[2])

	f.later()
	c = c.again()
	c.stores(c.doc(1, "a", "a"), c.doc(2, "b", "bbbbbb"), c.completed(2))
	require.Equal(t, "a stored\nb stored\nc stored", c.statuses(), "what shrinks makes room at once")
	require.Empty(t, f.wronglyCounted())
}

func TestLinksTitlesAndHeadingsCountInTheQuotaToo(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_bytes", 20_000)
	c := f.syncing()
	long := strings.Repeat("x", 4000)
	six := func(p *internalpb.DocumentPart) { p.Links = []string{long, long, long, long, long, long} }
	c.stores(c.doc(1, "links", "a", six), c.doc(2, "headings", "a", func(p *internalpb.DocumentPart) {
		p.Chunks[0].HeadingPath = []string{long, long, long, long, long, long}
	}), c.doc(3, "small", "a"), c.completed(3))
	require.Equal(t, 2, strings.Count(c.statuses(), tooLong))
	require.Zero(t, f.count("documents WHERE source_id = 'links' AND (links <> '{}' OR title <> '')"), "nothing of it is kept")

	c = c.again()
	c.stores(c.doc(1, "small", "b", touched("hash of a", "v2"), six), c.completed(1))
	require.Contains(t, strings.Split(c.documents(), "\n")[2], "small | failed |")
	require.Empty(t, f.wronglyCounted())
}

func TestWhatIsRefusedOrGivenUpKeepsTheLinksThatItHad(t *testing.T) {
	f := newFixture(t)
	for name, fails := range map[string]func(c trip){
		"refused": func(c trip) {
			c.stores(c.doc(1, "hub", "hub with more words", func(p *internalpb.DocumentPart) { p.Links = []string{strings.Repeat("x", smallBytes)} }))
		},
		"given up": func(c trip) {
			require.NoError(t, f.countPoison(ctx, delivery{request: c.doc(1, "hub", "x"), try: c.of(), msg: silentMessage{}}, errPoison))
		},
	} {
		f.exec(`DELETE FROM owner_quotas`)
		f.later()
		c := f.synced(map[string]string{"hub": "hub"})
		f.may(1, "max_bytes", one[int64](f, `SELECT sum(n.bytes)::bigint FROM document_counts n JOIN connectors c ON c.id = n.connector_id`))
		c = c.again()
		fails(c)
		token := map[string]string{"refused": "token of hub with more words"}[name]
		require.Contains(t, c.documents(), `hub | failed | `+token+` |  | {"to hub"} | 1 |`)
		f.exec(`UPDATE connectors SET config = '{"changed": true}' WHERE id = $1`, c.connector)
		c = c.again()
		fails(c)
		require.Contains(t, c.documents(), `hub | failed | `+token+` |  | {} | 0 |`, "links of another configuration are not kept: "+name)
	}
	require.Empty(t, f.wronglyCounted())
}

func TestADocumentWithoutTextIsRefusedWhenItsMetadataIsLong(t *testing.T) {
	f := newFixture(t)
	says := func(kilobytes int) func(p *internalpb.DocumentPart) {
		return func(p *internalpb.DocumentPart) {
			for n := range kilobytes {
				p.Links = append(p.Links, fmt.Sprint(n, strings.Repeat("x", 1000)))
			}
		}
	}
	folder := func(p *internalpb.DocumentPart) { p.Chunks, p.ChunkCount = nil, 0 }
	c := f.synced(map[string]string{"a": "apple", "b": "banana"})
	f.may(1, "max_bytes", 1)
	f.may(1, "max_documents", 1)
	for _, kilobytes := range []int{8, 9} {
		want := "a stored\nb failed unreadable\nfolder stored\nnew failed unreadable"
		if kilobytes > 8 {
			want = "a" + tooLong + ".*\nb failed unreadable\nfolder" + tooLong + ".*\nnew failed unreadable"
		}
		c = c.again()
		c.stores(c.doc(1, "a", "x", touched("hash of apple", "v2"), says(kilobytes)), c.doc(2, "b", "x", unreadable, says(kilobytes)),
			c.doc(3, "folder", "", folder, says(kilobytes)), c.doc(4, "new", "x", unreadable, says(kilobytes)), c.completed(4))
		require.Regexp(t, want, c.statuses())
		require.LessOrEqual(t, one[int](f, `SELECT max(cardinality(links)) FROM documents`), 9)
	}
	require.Empty(t, f.wronglyCounted())
}

func TestWhatFailsBringsNoMoreThanThereIsRoomFor(t *testing.T) {
	for name, fails := range map[string]func(p *internalpb.DocumentPart){
		"other content to keep": touched("hash of nothing", "v2"),
		"contradiction":         func(p *internalpb.DocumentPart) { p.ChunkCount = 2 },
		"unreadable":            unreadable,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.may(1, "max_bytes", 20_000)
			f.may(1, "max_documents", 3)
			c := f.syncing()
			for no := range int64(9) {
				c.stores(c.doc(no+1, fmt.Sprint("bad", no), "x", fails, func(p *internalpb.DocumentPart) { p.Links = []string{strings.Repeat("x", 9000)} }))
			}
			require.EqualValues(t, 2, f.count("documents WHERE links <> '{}'"))
			require.EqualValues(t, 7, f.count("documents WHERE links = '{}' AND content_hash = ''"), "they are brought again")
			c.stores(c.doc(10, "a", "x"), c.doc(11, "b", "x"), c.doc(12, "c", "x"), c.completed(12))
			require.EqualValues(t, 3, f.count("documents WHERE status = 'stored'"), "nothing is kept free for what has failed")
			require.Empty(t, f.wronglyCounted())
		})
	}
}

func TestWhatIsDeletedMakesRoomOnce(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_bytes", 5000)
	c := f.syncing()
	c.stores(c.doc(1, "gone", "x", func(p *internalpb.DocumentPart) { p.Title = strings.Repeat("t", 1000) }))
	for no := range int64(9) {
		c.stores(c.deletion(no+2, "gone"))
	}
	require.EqualValues(t, 5000, f.quotas.owners[1].left.bytes)
	require.Empty(t, f.wronglyCounted())
}

func TestWhatALaterMessageHasWrittenTakesNoRoom(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 2)
	c := f.syncing()
	c.stores(c.doc(3, "a", "x", unreadable), c.doc(4, "b", "x", unreadable))
	c.stores(c.doc(1, "a", "x"), c.doc(2, "b", "x"))
	c.stores(c.doc(5, "c", "x"), c.doc(6, "d", "x"), c.completed(6))
	require.EqualValues(t, 2, f.count("documents WHERE status = 'stored'"))
	require.Empty(t, f.wronglyCounted())
}

func TestAnotherConfigurationHasNoMoreThanTheQuota(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 2)
	c := f.synced(map[string]string{"a": "apple", "b": "banana"})
	f.exec(`UPDATE connectors SET config = '{"changed": true}' WHERE id = $1`, c.connector)
	f.later()
	c = c.again()
	c.stores(c.doc(1, "a", "apple"), c.doc(2, "b", "banana"))
	c.stores(c.doc(3, "c", "cherry"), c.completed(3))
	require.Equal(t, "a stored\nb stored\nc"+tooMany, c.statuses())
}

func TestADocumentOfSeveralPartsIsCountedWhole(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_bytes", 34)
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
	require.Contains(t, c.statuses(), "a stored\nb"+tooLong)
	require.EqualValues(t, 14, one[int64](f, `SELECT text_bytes FROM documents WHERE source_id = 'a'`))
	require.EqualValues(t, 2, f.count("chunks"), "nothing is kept of what has no room")
	require.Empty(t, f.wronglyCounted())
}

// What an earlier configuration has stored is swept only when all of the new one is listed.
func TestAnotherFolderHasAsMuchRoomAsTheOneBefore(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 2)
	c := f.synced(map[string]string{"a": "apple", "b": "banana"})
	for _, folder := range []string{"x", "y"} {
		f.exec(`UPDATE connectors SET config = jsonb_build_object('folder', $1::text) WHERE id = $2`, folder, c.connector)
		f.later()
		c = c.again()
		c.stores(c.doc(1, folder+"1", "one"), c.doc(2, folder+"2", "two"), c.doc(3, folder+"3", "three"), c.completed(3))
		require.Equal(t, "completed", c.verdict())
		require.NoError(t, inTime(f.Sweep))
		require.Equal(t, folder+"1 stored\n"+folder+"2 stored\n"+folder+"3"+tooMany, c.statuses())
	}
	require.Empty(t, f.wronglyCounted())
}

// Else one who changes the configuration again and again, and lets no run end, would store without end.
func TestAllConfigurationsTogetherHaveTwiceTheRoom(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 2)
	c := f.connector()
	for _, folder := range []string{"x", "y", "z"} {
		f.exec(`UPDATE connectors SET config = jsonb_build_object('folder', $1::text) WHERE id = $2`, folder, c.connector)
		f.later()
		c = c.again()
		c.stores(c.doc(1, folder+"1", "one"), c.doc(2, folder+"2", "two"))
		f.exec(`SELECT moves.fail($1, $2, 'transient', 'x')`, c.session, c.try)
		require.NoError(t, inTime(f.Sweep))
	}
	require.EqualValues(t, 4, f.count("documents WHERE status = 'stored'"))
}

func TestWhatIsDeletedMakesRoomForWhatComesNext(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 2)
	c := f.synced(map[string]string{"a": "apple", "b": "banana"}).again()
	c.stores(c.deletion(1, "a"), c.doc(2, "c", "cherry"))
	c.stores(c.deletion(3, "b"))
	c.stores(c.doc(4, "d", "date"), c.doc(5, "e", "elder"), c.completed(5))
	require.NoError(t, inTime(f.Sweep))
	require.Equal(t, "c stored\nd stored\ne"+tooMany, c.statuses())
	require.Empty(t, f.wronglyCounted())
}

func TestNothingIsRefusedByAnAnswerThatIsOld(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 1)
	c := f.synced(map[string]string{"a": "apple"})
	f.exec(`UPDATE owner_quotas SET max_documents = 5`)
	for _, room := range f.quotas.owners {
		room.asked, room.until = room.asked.Add(-2*quotaFresh), room.until.Add(time.Hour)
	}
	c = c.again()
	c.stores(c.doc(1, "b", "banana"), c.completed(1))
	require.Equal(t, "a stored\nb stored", c.statuses())
}

func TestAnAnswerIsForgottenAfterAMinute(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 1)
	f.synced(map[string]string{"a": "apple"})
	old := f.quotas.owners[1]
	require.NotNil(t, f.quotas.known(1, old.asked.Add(quotaKept), false))
	require.Nil(t, f.quotas.known(1, old.asked.Add(quotaKeptLong+time.Millisecond), false))
}

func TestAnOperatorGivesAnOwnerAnotherQuotaOfDocuments(t *testing.T) {
	f := newFixture(t)
	require.Equal(t, "10000000 20000000000", one[string](f, `SELECT max_documents || ' ' || max_bytes FROM owner_quotas WHERE user_id = 0`))
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
	require.NoError(t, f.sweepDeletedConnectors(ctx))
	require.Zero(t, f.count("document_counts WHERE connector_id = "+fmt.Sprint(c.connector)), "nothing of it is left")
	require.Empty(t, f.wronglyCounted())
}

func TestAStoreWaitsForNoOtherStoresCount(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"))
	other, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = other.Rollback(ctx) }()
	_, err = other.Exec(ctx, `UPDATE document_counts SET bytes = bytes`)
	require.NoError(t, err)
	c.stores(c.doc(2, "b", "banana"), c.completed(2))
	require.NoError(t, other.Commit(ctx))
	require.Empty(t, f.wronglyCounted())
	require.EqualValues(t, 2, f.count("document_counts"))
}

// A deadlock, say: the transaction is repeated.
func TestATransactionThatIsRepeatedTakesRoomOnce(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_documents", 1)
	fails := 2
	f.writing = func([]Piece) error {
		if fails--; fails >= 0 {
			return &pgconn.PgError{Code: "40P01"}
		}
		return nil
	}
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"), c.completed(1))
	require.Negative(t, fails)
	require.Equal(t, line("a", "apple"), c.documents())
}

func TestAnOperatorOfAStricterIsolationDeletesDocumentsWhateverOthersStore(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple", "b": "banana"}).again()
	tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `SELECT count(*) FROM documents`)
	require.NoError(t, err)
	c.stores(c.doc(1, "c", "cherry"))
	_, err = tx.Exec(ctx, `DELETE FROM documents WHERE source_id = 'a'`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.Empty(t, f.wronglyCounted())
}
