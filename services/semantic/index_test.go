//go:build !race

package semantic

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/testonly/testkit"
)

func TestARunWaitsForWhatItsConnectorHasChangedAndForNoOther(t *testing.T) {
	x := newIndexed(t)
	x.failing.Store(every)
	c, other := x.syncing(), x.syncing()
	c.stores(c.doc(1, "a", "zebra"))
	other.stores(other.doc(1, "b", "yak"))
	x.exec(`SELECT moves.disable($1)`, c.connector) // that run is over
	x.exec(`SELECT moves.enable($1)`, c.connector)
	c = c.again()
	c.stores(c.completed(0)) // nothing has changed since
	require.Equal(t, "running", c.verdict(), "what the run before has stored is not in the index")
	x.failing.Store("")
	_, err := x.index.takeTurn(ctx, ofRuns, []uuid.UUID{c.session})
	require.NoError(t, err)
	require.Equal(t, int64(1), x.count("search_index_changes"))
	waiting, err := x.index.completeFound(ctx, []uuid.UUID{c.session, other.session})
	require.NoError(t, err)
	require.Empty(t, waiting, "the other run is not whole")
	require.Equal(t, "skipped", c.verdict())
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
}

func TestASemanticThatHasNotLookedYetIndexesARunWhole(t *testing.T) {
	x := newIndexed(t)
	started := x.another()
	x.failing.Store(every)
	c := x.syncing()
	c.stores(c.doc(1, "a", "zebra"), c.completed(1))
	x.failing.Store("")
	require.NoError(t, started.CompleteStored(ctx))
	require.NoError(t, started.index.catchUp(ctx))
	require.Equal(t, "completed", c.verdict())
	require.NoError(t, x.mirrors())
}

func TestWhatIsReplacedDeletedOrSweptLeavesTheIndex(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra", "b": "yak", "c": "xerus"}).again()
	c.stores(c.doc(1, "a", "aardvark"), c.deletion(2, "b"), c.doc(3, "half", "x", part(0, 2)), c.completed(4))
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 1}, "aardvark"))
	require.Empty(t, x.finds(Reader{UserID: 1}, "zebra"))
	require.Empty(t, x.finds(Reader{UserID: 1}, "yak"))
	x.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	x.sweeps()
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Empty(t, x.points())
}

func TestPointsSayWhoseTheyAreNow(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra", "b": "yak"})
	other := x.synced(map[string]string{"c": "xerus"})
	x.exec(`UPDATE connectors SET scope = 'group', scope_id = 'g' WHERE id = $1`, c.connector)
	c = c.again()
	c.stores(c.doc(1, "a", "aardvark"), c.completed(1))
	require.Equal(t, "completed", c.verdict())
	require.NoError(t, x.mirrors())
	x.exec(`UPDATE connectors SET user_id = 7 WHERE id = $1`, other.connector)
	require.Equal(t, int64(1), x.count("search_index_changes"), "one, however many documents it has")
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Equal(t, []string{"c"}, x.finds(Reader{UserID: 7}, "xerus"))
	require.Equal(t, []string{"b"}, x.finds(Reader{UserID: 9, Groups: []string{"g"}}, "yak"))
}

func TestWhatADeletedConnectorLeftIsNotItsSuccessorsInTheIndex(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"plan": "zebra"})
	x.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	x.exec(`INSERT INTO connectors (id, name, type, user_id, refresh_freq_minutes) VALUES ($1, 'other', 'file', 7, 60)`, c.connector)
	x.exec(`DELETE FROM search_index`) // it is filled anew
	require.NoError(t, x.index.Look(ctx))
	require.Empty(t, x.points())
}

func TestADocumentOfManyPagesIsIndexedWhole(t *testing.T) {
	x := newIndexed(t)
	c := x.syncing()
	const chunks = 2*indexPage + 10
	c.stores(c.doc(1, "small", "apple"), c.doc(2, "large", "", func(p *internalpb.DocumentPart) {
		p.Chunks, p.ChunkCount = nil, chunks
		for i := range chunks {
			p.Chunks = append(p.Chunks, &internalpb.Chunk{Text: fmt.Sprintf("zebra number%d", i)})
		}
	}), c.completed(2))
	require.Equal(t, "completed", c.verdict())
	require.NoError(t, x.mirrors())
	require.Len(t, x.points(), chunks+1)
	require.Positive(t, x.biggest.Load())
	require.Less(t, x.biggest.Load(), int64(1<<20))
	hits, err := NewSearcher(x.pool, x.qdrant).Search(ctx, Reader{UserID: 1}, "number521", 1)
	require.NoError(t, err)
	require.Equal(t, "zebra number521", hits[0].Text)
}

func TestARequestIsBoundedWhateverTheChunksHold(t *testing.T) {
	x := newIndexed(t)
	c := x.syncing()
	const chunks, bound = 16, 8 << 20 // of a request that has as many chunks as there may be
	var text strings.Builder
	for i := 0; text.Len() < 60_000; i++ {
		fmt.Fprintf(&text, "w%d ", i)
	}
	c.stores(c.doc(1, "a", "", func(p *internalpb.DocumentPart) {
		p.Chunks, p.ChunkCount = nil, chunks
		for range chunks {
			p.Chunks = append(p.Chunks, &internalpb.Chunk{Text: text.String()})
		}
	}), c.completed(1))
	require.Equal(t, "completed", c.verdict())
	require.NoError(t, x.mirrors())
	require.Len(t, x.points(), chunks)
	require.Less(t, x.biggest.Load(), int64(bound*chunks/indexPage))
}

func TestWhatWasStoredBeforeThereWasAnIndexIsInIt(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.synced(map[string]string{fmt.Sprint("a", i): "zebra", fmt.Sprint("b", i): "yak"})
	}
	require.Zero(t, f.count("search_index_changes"), "nobody keeps an index")
	x := &indexed{fixture: f}
	f.qdrant = startQdrant(t, x)
	f.Semantic = x.another()
	x.failing.Store("CreateFieldIndex") // it dies while it makes the collection
	require.Error(t, f.index.Look(ctx))
	x.failing.Store("")
	require.NoError(t, f.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Len(t, x.points(), 6)
}

func TestAStoreThatIsUnderWayWhenAnIndexBeginsIsInIt(t *testing.T) {
	f := newFixture(t)
	x := &indexed{fixture: f}
	f.qdrant = startQdrant(t, x)
	index := x.another().index
	c := f.syncing()
	began := make(chan error, 1)
	f.writing = func([]Piece) error {
		f.writing = nil
		go func() { began <- index.Look(ctx) }()
		testkit.Eventually(t, soon, func() error { // until the index waits for this transaction, or does not
			if len(began) == 0 && one[int64](f, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'
				AND relation = 'documents'::regclass`) == 0 {
				return errors.New("it does not wait")
			}
			return nil
		})
		return nil
	}
	c.stores(c.doc(1, "a", "zebra"))
	require.NoError(t, <-began)
	require.NoError(t, index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Len(t, x.points(), 1)
}

func TestAnIndexThatNobodyKeepsIsForgottenAndGathersNothing(t *testing.T) {
	x := newIndexed(t)
	x.synced(map[string]string{"a": "zebra"})
	kept := x.Semantic
	x.Semantic = x.another(func(q *config.Qdrant) { q.URL = "" })
	x.synced(map[string]string{"b": "yak"})
	require.NoError(t, x.SweepIndex(ctx))
	require.Equal(t, int64(1), x.count("search_index_changes"), "one of the replicas still keeps it")
	x.exec(`UPDATE search_index SET fed_at = fed_at - interval '11 minutes'`)
	require.NoError(t, x.SweepIndex(ctx))
	x.synced(map[string]string{"c": "xerus"})
	require.Zero(t, x.count("search_index_changes"))
	require.NoError(t, kept.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Len(t, x.points(), 3)
}

// As after a restore from a backup: the database says that the index is filled, and it is of a later one.
func TestAnIndexThatNobodyKeptForLongIsFilledAnew(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra"})
	x.failing.Store(every)
	c = c.again()
	c.stores(c.doc(1, "a", "aardvark"))
	x.exec(`DELETE FROM search_index_changes`) // nothing says that the index has not got it
	x.failing.Store("")
	require.NoError(t, x.index.Look(ctx))
	require.Error(t, x.mirrors())
	x.exec(`UPDATE search_index SET fed_at = fed_at - interval '11 minutes'`)
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
}

func TestAnIndexOfAnotherNameTakesOverWhenTheFirstIsNotKeptAnyMore(t *testing.T) {
	x := newIndexed(t)
	next := x.another(func(q *config.Qdrant) { q.Collection = "next" })
	require.NoError(t, next.index.Look(ctx))
	x.synced(map[string]string{"a": "zebra"})
	require.NoError(t, next.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Contains(t, x.collection(), "tests-", "the first is kept")
	x.exec(`UPDATE search_index SET fed_at = fed_at - interval '2 minutes'`)
	require.NoError(t, next.index.Look(ctx))
	require.Contains(t, x.collection(), "next-hash-512-v1-")
	require.NoError(t, x.mirrors())
	x.synced(map[string]string{"b": "yak"}) // by a replica of the release before
	require.NoError(t, next.index.Look(ctx))
	require.NoError(t, x.mirrors())
	_, err := NewSearcher(x.pool, x.qdrant).Search(ctx, Reader{UserID: 1}, "zebra", 1)
	require.ErrorContains(t, err, "no index tests-hash-512-v1 is kept")
}

func TestTwoDatabasesOnOneQdrantDoNotTouchEachOther(t *testing.T) {
	x := newIndexed(t)
	y := &indexed{fixture: onDatabase(t), server: x.server}
	y.qdrant = x.qdrant
	y.Semantic = y.service(y.connects())
	x.synced(map[string]string{"a": "zebra"})
	require.NoError(t, y.index.Look(ctx))
	y.synced(map[string]string{"a": "yak"})
	require.NoError(t, x.mirrors())
	require.NoError(t, y.mirrors())
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 1}, "zebra"))
	require.Empty(t, y.finds(Reader{UserID: 1}, "zebra"))
}

func TestAProcessThatIndexesForLongKeepsTheIndexMeanwhile(t *testing.T) {
	x := newIndexed(t)
	x.failing.Store(every)
	c := x.syncing()
	c.stores(c.doc(1, "a", "zebra"))
	x.failing.Store("")
	x.exec(`UPDATE search_index SET fed_at = clock_timestamp() - interval '9 minutes'`)
	require.NoError(t, x.index.applyChanges(ctx))
	require.True(t, one[bool](x.fixture, `SELECT fed_at > clock_timestamp() - interval '1 minute' FROM search_index`))
}

func TestATurnIsBoundedInChunks(t *testing.T) {
	changes := func(chunks ...int32) (rows []dbgen.SearchIndexChangesRow) {
		for i, n := range chunks {
			id := int64(i + 1)
			rows = append(rows, dbgen.SearchIndexChangesRow{DocumentID: &id, Chunks: n})
		}
		return rows
	}
	require.Len(t, firstPage(changes(100, 100, 100)), 2)
	require.Len(t, firstPage(changes(128, 128, 1)), 2)
	require.Len(t, firstPage(changes(5000, 1)), 1, "one at least")
	require.Len(t, firstPage(changes(1, 0, 0)), 3)
	require.Len(t, firstPage(append(changes(1, 1), dbgen.SearchIndexChangesRow{})), 2, "all of a connector are queued in a turn of its own")
}

func TestADocumentWithMoreChunksThanItsRowSaysIsIndexedWhole(t *testing.T) {
	x := newIndexed(t)
	x.failing.Store(every)
	c := x.syncing()
	for no := range int64(2) {
		c.stores(c.doc(no+1, fmt.Sprint(no), "", func(p *internalpb.DocumentPart) {
			p.Chunks, p.ChunkCount = nil, 200
			for i := range 200 {
				p.Chunks = append(p.Chunks, &internalpb.Chunk{Text: fmt.Sprintf("zebra %d", i)})
			}
		}))
	}
	x.exec(`UPDATE documents SET chunk_count = 1`)
	x.failing.Store("")
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Len(t, x.points(), 400)
}

func TestABadVectorHoldsUpNoOther(t *testing.T) {
	x := newIndexed(t)
	x.failing.Store(every)
	c := x.syncing()
	c.stores(c.doc(1, "a", "zebra"), c.doc(2, "b", "yak"), c.doc(3, "c", "xerus"))
	x.exec(`UPDATE chunks SET embedding = '{1,2}' WHERE text = 'zebra'`)
	x.exec(`UPDATE chunks SET embedding[7] = 'NaN' WHERE text = 'yak'`)
	x.failing.Store("")
	require.NoError(t, x.index.Look(ctx))
	require.Len(t, x.points(), 1)
	require.Zero(t, x.count("search_index_changes"))
}

func TestTheServiceKeepsTheIndexWhileItRuns(t *testing.T) {
	t.Parallel()
	x := &indexed{fixture: onDatabase(t)}
	x.qdrant = startQdrant(t, x)
	f := &flow{fixture: x.fixture}
	common := config.Common{DatabaseURL: x.url, DatabaseRole: role, NATSURL: testkit.NATS(t).URL(), DatabaseMaxConns: 8}
	servers, err := connect.Open(ctx, common, "semantic", connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = servers.Close() })
	x.Semantic, f.js = x.service(servers), servers.Stream
	f.runs()
	c := x.syncing()
	f.publishes(c.doc(1, "a", "zebra"), c.doc(2, "b", "yak"), c.completed(2))
	f.becomes(c, "completed")
	require.Equal(t, []string{"b"}, x.finds(Reader{UserID: 1}, "yak"))
	c = c.again()
	f.publishes(c.deletion(1, "b"), c.completed(1))
	f.becomes(c, "completed")
	testkit.Eventually(t, soon, x.mirrors)
}
