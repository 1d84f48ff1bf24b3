//go:build !race

package semantic

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	pb "github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

const scroll = "Scroll"

// reviews looks, and reviews every page once more, as some time later. It returns how many pages there were.
func (x *indexed) reviews() (pages int) {
	x.t.Helper()
	require.NoError(x.t, x.index.Look(ctx))
	x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	for over := false; !over; {
		reviewed, err := x.index.Review(ctx, time.Now().Add(soon))
		require.NoError(x.t, err)
		pages += int(reviewed.Pages)
		over = one[bool](x.fixture, `SELECT review_at > clock_timestamp() FROM search_index`)
	}
	require.NoError(x.t, x.index.Look(ctx)) // what was found outdated is queued
	return pages
}

func (x *indexed) foundOutdated() int { return int(testutil.ToFloat64(x.metrics.outdated)) }

// queued is how many changes were ever recorded.
func (x *indexed) queued() int64 {
	return one[int64](x.fixture, `SELECT coalesce(last_value, 0) FROM pg_sequences WHERE sequencename = 'search_index_changes_id_seq'`)
}

func TestAnUpsertThatIsCarriedOutLateDoesNotOutliveItsDocument(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"b": "yak"}).again()
	x.failing.Store(every)
	c.stores(c.doc(1, "a", "zebra"))
	x.failing.Store("")
	x.index.down.Store(false)
	held := &hold{operation: upsert, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
	x.hold.Store(held)
	dying, kill := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- x.index.applyChanges(dying) }()
	<-held.reached
	kill()
	require.Error(t, <-ended)
	c.stores(c.deletion(2, "a"), c.completed(2))
	require.Equal(t, "completed", c.verdict())
	x.sweeps()
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	close(held.release)
	<-held.done
	require.Len(t, x.points(), 2)
	x.reviews()
	require.NoError(t, x.mirrors())
	require.Len(t, x.points(), 1)
	require.Equal(t, 1, x.foundOutdated())
}

func TestWhatARestoredCollectionHoldsTooMuchIsRemoved(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra", "b": "yak", "same": "xerus"}).again()
	moved, gone := x.synced(map[string]string{"moved": "wolf"}), x.synced(map[string]string{"gone": "viper"})
	left := x.synced(map[string]string{"left": "urchin"})
	restore := x.server.Snapshot()
	c.stores(c.doc(1, "a", "aardvark"), c.deletion(2, "b"), c.completed(2))
	x.exec(`UPDATE connectors SET scope = 'group', scope_id = 'g' WHERE id = $1`, moved.connector)
	x.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	x.sweeps()
	require.NoError(t, x.index.Look(ctx))
	x.exec(`DELETE FROM connectors WHERE id = $1`, left.connector) // it is not swept yet
	x.exec(`INSERT INTO connectors (id, name, type, user_id, refresh_freq_minutes) VALUES ($1, 'other', 'file', 1, 60)`, left.connector)

	restore()
	require.Error(t, x.mirrors())
	x.reviews()
	require.Len(t, x.points(), 3)
	require.Equal(t, 5, x.foundOutdated())
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 1}, "aardvark"))
	require.Equal(t, []string{"moved"}, x.finds(Reader{UserID: 9, Groups: []string{"g"}}, "wolf"))
	x.sweeps()
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	x.reviews()
	require.Equal(t, 5, x.foundOutdated())
}

// long is a document of many chunks.
func (c trip) long(no int64, id string, chunks int) *internalpb.DocumentProcessRequest {
	return c.doc(no, id, "", func(p *internalpb.DocumentPart) {
		p.Chunks, p.ChunkCount = nil, int32(chunks)
		for i := range chunks {
			p.Chunks = append(p.Chunks, &internalpb.Chunk{Text: fmt.Sprintf("zebra number%d", i)})
		}
	})
}

func TestAReviewOfWhatIsCurrentChangesNothing(t *testing.T) {
	x := newIndexed(t)
	c := x.syncing()
	c.stores(c.long(1, "a", 300), c.long(2, "b", 300), c.long(3, "c", 300), c.completed(3))
	for _, set := range []string{"scope = 'org'", "scope = 'group', scope_id = 'g'", "user_id = 7"} {
		x.synced(map[string]string{"d": "yak"}, set)
	}
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	before := x.queued()
	require.Equal(t, 4, x.reviews(), "903 points, 256 a look")
	require.NoError(t, x.mirrors())
	require.Equal(t, before, x.queued())
	require.Zero(t, x.foundOutdated())
	asked := x.asked.Load()
	require.NoError(t, x.index.Look(ctx))
	require.Equal(t, asked+1, x.asked.Load(), "that the collection is there; the next review is later")
}

func TestTwoSemanticsShareAReview(t *testing.T) {
	x := newIndexed(t)
	c := x.syncing()
	c.stores(c.long(1, "a", 600), c.completed(1))
	replica := x.another()
	require.NoError(t, replica.index.Look(ctx))
	x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	for _, s := range []*Semantic{x.Semantic, replica, x.Semantic} {
		require.False(t, one[bool](x.fixture, `SELECT review_at > clock_timestamp() FROM search_index`))
		_, err := s.index.Review(ctx, time.Now())
		require.ErrorIs(t, cmp.Or(err, errMore), errMore, "its time is over after one page")
	}
	require.True(t, one[bool](x.fixture, `SELECT review_at > clock_timestamp() FROM search_index`))
}

func TestAReviewWaitsForItsTurn(t *testing.T) {
	x := newIndexed(t)
	c := x.syncing()
	c.stores(c.long(1, "a", 600), c.completed(1))
	x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	giveBack := x.holds(`SELECT FROM search_index FOR UPDATE`)
	reviewed, err := x.index.Review(ctx, time.Now())
	require.ErrorIs(t, err, errMore)
	require.Zero(t, reviewed.Pages)
	type end struct {
		Reviewed
		error
	}
	ended := make(chan end, 1)
	go func() {
		reviewed, err := x.index.Review(ctx, time.Now().Add(soon))
		ended <- end{reviewed, err}
	}()
	x.eventually(`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`)
	giveBack()
	require.Equal(t, end{Reviewed{Pages: 3, Through: true}, nil}, <-ended)
}

func TestAReviewQueuesNoDocumentThatWaits(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra", "b": "yak", "c": "xerus"}).again()
	other := x.synced(map[string]string{"d": "wolf"})
	x.index.down.Store(true)
	c.stores(c.doc(1, "a", "aardvark"), c.deletion(2, "b"))
	x.exec(`UPDATE connectors SET user_id = 7 WHERE id = $1`, other.connector)
	before := x.queued()
	x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	found, _, err := x.index.review(ctx)
	require.NoError(t, err)
	require.Zero(t, found)
	require.Equal(t, before, x.queued())
	require.True(t, one[bool](x.fixture, `SELECT review_at > clock_timestamp() FROM search_index`), "it was reviewed")
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
}

func TestAReviewWaitsUntilALongQueueIsBrought(t *testing.T) {
	x := newIndexed(t)
	x.synced(map[string]string{"a": "zebra"})
	x.exec(`INSERT INTO search_index_changes (document_id, connector_id) SELECT n, 1 FROM generate_series(1, $1) n`, reviewQueue)
	x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	reviewed, err := x.index.Review(ctx, time.Now())
	require.ErrorIs(t, err, errMore)
	require.Equal(t, Reviewed{}, reviewed)
	require.False(t, one[bool](x.fixture, `SELECT review_at > clock_timestamp() FROM search_index`), "it was not reviewed")
	require.NoError(t, x.index.Look(ctx))
	reviewed, err = x.index.Review(ctx, time.Now().Add(soon))
	require.NoError(t, err)
	require.True(t, reviewed.Through)
	require.True(t, one[bool](x.fixture, `SELECT review_at > clock_timestamp() FROM search_index`))
}

func TestPointsThatAreMalformedAreRemovedOrWrittenAnew(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra", "b": "yak"})
	ours := x.points()[0]
	vector := make([]float32, 512)
	vector[511] = 1
	point := func(id uuid.UUID, payload map[string]*pb.Value) *pb.PointStruct {
		return &pb.PointStruct{Id: pb.NewIDUUID(id.String()), Vectors: pb.NewVectorsDense(vector), Payload: payload}
	}
	foreign := []*pb.PointStruct{point(uuid.New(), nil)}
	for field, values := range map[string][]any{
		"scope":        {nil, 5, "", "user_\x001", "user_2", []any{"user_1"}},
		"connector_id": {nil, "1", int64(1 << 40), -1},
		"document_id":  {nil, "1", 1.5, int64(1) << 62, -1, []any{1}},
		"try_id":       {nil, 5, "", "zebra", uuid.NewString()},
		"first_no":     {nil, "1", true, -1},
		"turn":         {nil, "1", 1.5},
	} {
		for _, value := range values {
			payload := maps.Clone(ours)
			delete(payload, field)
			if value != nil {
				v, err := pb.NewValue(value)
				require.NoError(t, err)
				payload[field] = v
			}
			foreign = append(foreign, point(uuid.New(), payload))
		}
	}
	// Where our own points were.
	for _, p := range x.points() {
		try, no := uuid.MustParse(p["try_id"].GetStringValue()), p["no"].GetIntegerValue()
		id := uuid.NewSHA1(try, fmt.Appendf(nil, "%d/%d/%d", p["first_no"].GetIntegerValue(), p["document_id"].GetIntegerValue(), no))
		foreign = append(foreign, point(id, pb.NewValueMap(map[string]any{"document_id": p["document_id"].GetIntegerValue()})))
	}
	x.writesDirectly(foreign...)
	require.Len(t, x.points(), len(foreign))
	x.reviews()
	require.NoError(t, x.mirrors())
	require.Equal(t, len(foreign), x.foundOutdated())
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 1}, "zebra"))
	c = c.again()
	c.stores(c.deletion(1, "a"), c.completed(1))
	require.Equal(t, "completed", c.verdict())
	require.NoError(t, x.mirrors())
}

func TestNoRunWaitsForAReviewThatFails(t *testing.T) {
	x := newIndexed(t)
	x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	x.failing.Store(scroll)
	_, err := x.index.Review(ctx, time.Now().Add(soon))
	require.ErrorIs(t, err, errIndex)
	x.synced(map[string]string{"a": "zebra"})
	require.NoError(t, x.mirrors())
	x.failing.Store("")
	_, err = x.index.Review(ctx, time.Now().Add(soon))
	require.NoError(t, err)
	require.True(t, one[bool](x.fixture, `SELECT review_at > clock_timestamp() + $1::interval FROM search_index`, reviewPause-time.Minute))
}
