package semantic

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"pgregory.net/rapid"

	"github.com/echomind/sync/internal/config"
)

// hold keeps the first request of its kind from being carried out until it is released.
type hold struct {
	operation              string
	taken                  atomic.Bool
	reached, release, done chan struct{}
}

func TestARunIsCompleteWhenItCanBeFound(t *testing.T) {
	x := newIndexed(t)
	c := x.syncing()
	x.failing.Store(every)
	c.stores(c.doc(1, "a", "zebra"), c.completed(1))
	require.Equal(t, "running", c.verdict())
	require.Equal(t, "SYNCING", c.status())
	require.Equal(t, int64(1), c.stored(), "nothing waits in the stream for it")
	_, err := NewSearcher(x.pool, x.qdrant).Search(ctx, Reader{UserID: 1}, "zebra", 1)
	require.ErrorContains(t, err, "overloaded")
	require.ErrorIs(t, x.index.Look(ctx), errIndex)
	require.NoError(t, x.CompleteStored(ctx))
	require.ErrorIs(t, x.index.catchUp(ctx), errDown)
	require.Equal(t, "running", c.verdict())
	x.failing.Store("")
	require.NoError(t, x.index.Look(ctx))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 1}, "zebra"))
	require.NoError(t, x.mirrors())
}

func TestNoWorkerAsksAQdrantThatIsKnownToBeDown(t *testing.T) {
	x := newIndexed(t)
	x.failing.Store(every)
	require.ErrorIs(t, x.index.Look(ctx), errIndex)
	before := x.asked.Load()
	for range 5 {
		c := x.syncing()
		c.stores(c.doc(1, "a", "zebra"), c.completed(1))
		require.Equal(t, int64(1), c.stored())
	}
	require.NoError(t, x.CompleteStored(ctx))
	require.ErrorIs(t, x.index.catchUp(ctx), errDown)
	require.Equal(t, before, x.asked.Load())
	x.failing.Store("")
	require.NoError(t, x.index.Look(ctx))
	require.Zero(t, x.count("scheduler_runs WHERE status = 'running'"))
	require.NoError(t, x.mirrors())
}

// A request may be carried out after its caller has given it up, and after a later one's.
func TestARequestThatIsCarriedOutLateHidesNothing(t *testing.T) {
	for name, operation := range map[string]string{"a deletion": remove, "an upsert": upsert} {
		t.Run(name, func(t *testing.T) {
			x := newIndexed(t)
			c := x.synced(map[string]string{"a": "zebra", "b": "yak"}).again()
			x.failing.Store(every)
			c.stores(c.doc(1, "a", "aardvark"))
			x.failing.Store("")
			x.index.down.Store(false)
			held := &hold{operation: operation, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
			x.hold.Store(held)
			dying, kill := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- x.index.applyChanges(dying) }()
			<-held.reached
			kill()
			require.Error(t, <-ended)
			c.stores(c.doc(2, "a", "antelope"), c.completed(2))
			require.Equal(t, "completed", c.verdict())
			close(held.release)
			<-held.done
			require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 1}, "antelope"))
			require.Empty(t, x.finds(Reader{UserID: 1}, "aardvark"))
			c = c.again()
			c.stores(c.doc(1, "a", "alpaca"), c.completed(1))
			require.NoError(t, x.index.Look(ctx))
			require.NoError(t, x.mirrors(), "the document's next change removes what is outdated")
		})
	}
}

func TestAnIndexThatIsLostIsFilledAgain(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra", "b": "yak"})
	x.server.Wipe()
	_, err := NewSearcher(x.pool, x.qdrant).Search(ctx, Reader{UserID: 1}, "zebra", 1)
	require.ErrorContains(t, err, "the collection does not exist")
	c = c.again()
	c.stores(c.doc(1, "c", "xerus"), c.completed(1))
	require.Equal(t, "running", c.verdict(), "it was lost while a run was stored")
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
	require.Len(t, x.server.Points("tests-hash-512-v1"), len(x.points()), "where others search")
	require.NoError(t, x.CompleteStored(ctx))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, []string{"b"}, x.finds(Reader{UserID: 1}, "yak"))
}

func TestACollectionOfOtherVectorsIsNotTouched(t *testing.T) {
	x := newIndexed(t)
	other := x.index.qdrant.Collection(x.collection())
	require.ErrorContains(t, other.Check(ctx, 3), "set QDRANT_COLLECTION to a name of this database's own")
	require.NoError(t, other.Check(ctx, 512))
}

func TestAWrongKeyIsSaid(t *testing.T) {
	x := newIndexed(t)
	wrong := func(q *config.Qdrant) { q.APIKey = "wrong" }
	err := x.another(wrong).index.Look(ctx)
	require.ErrorIs(t, err, errIndex)
	require.ErrorContains(t, err, "check QDRANT_API_KEY")
	require.NotContains(t, err.Error(), `"wrong"`)
}

// writesDirectly writes points as another program could.
func (x *indexed) writesDirectly(points ...*pb.PointStruct) {
	x.t.Helper()
	u, err := url.Parse(x.qdrant.URL)
	require.NoError(x.t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(x.t, err)
	theirs, err := pb.NewClient(&pb.Config{Host: u.Hostname(), Port: port, SkipCompatibilityCheck: true})
	require.NoError(x.t, err)
	defer func() { _ = theirs.Close() }()
	_, err = theirs.Upsert(metadata.AppendToOutgoingContext(ctx, "api-key", x.qdrant.APIKey), &pb.UpsertPoints{CollectionName: "tests-hash-512-v1", Points: points})
	require.NoError(x.t, err)
}

func TestAPointThatIsNotOursIsSaid(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra"})
	vector := make([]float32, 512)
	vector[511] = 1
	foreign := &pb.PointStruct{
		Id: pb.NewIDUUID(c.session.String()), Vectors: pb.NewVectorsDense(vector),
		Payload: pb.NewValueMap(map[string]any{"scope": "user_1", "try_id": "zebra"}),
	}
	x.writesDirectly(foreign)
	_, err := NewSearcher(x.pool, x.qdrant).Search(ctx, Reader{UserID: 1}, "zebra", 1)
	require.ErrorContains(t, err, "a point of collection "+x.collection()+" is not ours")
}

// Two replicas keep the index while runs store, replace and delete; any request may fail, as may the commit after it.
func TestWhateverFailsTheIndexEndsAsPostgres(t *testing.T) {
	x := newIndexed(t)
	replica := x.another()
	rapid.Check(t, func(rt *rapid.T) {
		c := x.connector()
		working, stop := context.WithCancel(ctx)
		var keepers sync.WaitGroup
		defer func() { // also where rapid ends this try early
			stop()
			keepers.Wait()
		}()
		for _, index := range []*Index{x.index, replica.index} {
			keepers.Go(func() {
				for working.Err() == nil {
					if index.Look(working) != nil {
						select { // it is asked again in a moment, as by the service
						case <-working.Done():
						case <-time.After(10 * time.Millisecond):
						}
					}
				}
			})
		}
		for range rapid.IntRange(1, 4).Draw(rt, "runs") {
			x.failing.Store(rapid.SampledFrom([]string{"", upsert, remove, every}).Draw(rt, "failing"))
			if rapid.IntRange(0, 3).Draw(rt, "wiped") == 0 {
				x.server.Wipe()
			}
			if rapid.Bool().Draw(rt, "moved") {
				x.exec(`UPDATE connectors SET user_id = user_id % 3 + 1 WHERE id = $1`, c.connector)
			}
			c = c.again()
			for _, m := range drawScript(rt) {
				require.NoError(rt, c.handles(m(c)))
			}
			x.failing.Store("")
			require.NoError(rt, untilNil(func() error {
				err := cmp.Or(x.CompleteStored(ctx), x.index.Look(ctx))
				if err == nil && c.verdict() == "running" {
					err = errors.New("the run is not completed yet")
				}
				return err
			}))
		}
		stop()
		keepers.Wait()
		require.NoError(rt, untilNil(func() error { return cmp.Or(x.Sweep(ctx), x.index.Look(ctx), x.mirrors()) }))
	})
}

// untilNil repeats what waits for others.
func untilNil(call func() error) (err error) {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(soon); time.Now().Before(end); <-pause.C {
		if err = call(); err == nil {
			return nil
		}
	}
	return err
}
