package semantic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/internal/config"
)

// hold keeps the first request of its kind from being carried out until it is released.
type hold struct {
	method, path           string
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
	require.ErrorIs(t, x.CompleteStored(ctx), errIndex)
	require.Equal(t, "running", c.verdict())
	x.failing.Store("")
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.CompleteStored(ctx))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 1}, "zebra"))
	require.NoError(t, x.mirrors())
}

func TestNoWorkerAsksAQdrantThatIsKnownToBeDown(t *testing.T) {
	x := newIndexed(t)
	var asked atomic.Int64
	x.server.Before = func(string) error { asked.Add(1); return errors.New("overloaded") }
	require.ErrorIs(t, x.index.Look(ctx), errIndex)
	before := asked.Load()
	for range 5 {
		c := x.syncing()
		c.stores(c.doc(1, "a", "zebra"), c.completed(1))
		require.Equal(t, int64(1), c.stored())
	}
	require.ErrorIs(t, x.CompleteStored(ctx), errDown)
	require.Equal(t, before, asked.Load())
	x.server.Before = nil
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.CompleteStored(ctx))
	require.Zero(t, x.count("scheduler_runs WHERE status = 'running'"))
	require.NoError(t, x.mirrors())
}

// A request may be carried out after its caller has given it up, and after a later one's.
func TestARequestThatIsCarriedOutLateHidesNothing(t *testing.T) {
	for name, operation := range map[string]string{"a deletion": "POST /points/delete", "an upsert": "PUT /points"} {
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(operation, " ")
			x := newIndexed(t)
			c := x.synced(map[string]string{"a": "zebra", "b": "yak"}).again()
			x.failing.Store(every)
			c.stores(c.doc(1, "a", "aardvark"))
			x.failing.Store("")
			x.index.down.Store(false)
			held := &hold{method: method, path: path, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
			x.hold.Store(held)
			dying, kill := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- x.index.bringAll(dying) }()
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

func TestAPointThatIsNotOursIsSaid(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra"})
	for _, version := range []string{"", "zebra", uuid.NewString(), uuid.NewString() + "/x"} {
		body := fmt.Sprintf(`{"points": [{"id": "x", "vector": [%s1], "payload": {"connector_id": %d, "version": %q}}]}`,
			strings.Repeat("0,", 511), c.connector, version)
		request := httptest.NewRequest(http.MethodPut, "/collections/"+x.collection()+"/points?wait=true", strings.NewReader(body))
		request.Header.Set("api-key", "secret")
		answer := httptest.NewRecorder()
		x.server.ServeHTTP(answer, request)
		require.Equal(t, 200, answer.Code, answer.Body)
		_, err := NewSearcher(x.pool, x.qdrant).Search(ctx, Reader{UserID: 1}, "zebra", 1)
		require.ErrorContains(t, err, "a point of collection "+x.collection()+" is not ours")
	}
}

// Two replicas keep the index while runs store, replace and delete; any request may fail, as may the commit after it.
func TestWhateverFailsTheIndexEndsAsPostgres(t *testing.T) {
	x := newIndexed(t)
	replica := x.another()
	rapid.Check(t, func(rt *rapid.T) {
		c := x.connector()
		working, stop := context.WithCancel(ctx)
		var keepers sync.WaitGroup
		for _, index := range []*Index{x.index, replica.index} {
			keepers.Go(func() {
				for working.Err() == nil {
					_ = index.Look(working)
				}
			})
		}
		for range rapid.IntRange(1, 4).Draw(rt, "runs") {
			x.failing.Store(rapid.SampledFrom([]string{"", upsert, remove, every}).Draw(rt, "failing"))
			if rapid.IntRange(0, 3).Draw(rt, "wiped") == 0 {
				x.server.Wipe()
			}
			c = c.again()
			for _, m := range drawScript(rt) {
				require.NoError(rt, c.handles(m(c)))
			}
			x.failing.Store("")
			require.NoError(rt, untilNil(func() error { return cmp.Or(x.index.Look(ctx), x.CompleteStored(ctx)) }))
			require.NotEqual(rt, "running", c.verdict())
		}
		stop()
		keepers.Wait()
		require.NoError(rt, untilNil(func() error { return cmp.Or(x.Sweep(ctx), x.index.Look(ctx), x.mirrors()) }))
	})
}

// untilNil repeats what waits for others.
func untilNil(call func() error) (err error) {
	for end := time.Now().Add(soon); time.Now().Before(end); {
		if err = call(); err == nil {
			return nil
		}
	}
	return err
}
