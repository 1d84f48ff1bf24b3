package api_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/search/qdrant"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// searchesAt asks for a search, and does not wait for the answer.
func (c caller) searchesAt(answered chan<- int) {
	go func() {
		r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.server.URL+"/api/v1/search?q=zebra", nil)
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		if got, err := http.DefaultClient.Do(r); err == nil {
			_ = got.Body.Close()
			answered <- got.StatusCode
		}
	}()
}

func TestSearchesOfOneUserDoNotStandBeforeThoseOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.DatabaseMaxConns = 4 }) // two may search, and one of each user
	one7, one8 := w.as(7, identity.User), w.as(8, identity.User)
	w.stores(w.source("x", identity.Ownership{UserID: 7, Scope: "user"}), "a", "", "", "the zebra runs")
	w.stores(w.source("y", identity.Ownership{UserID: 8, Scope: "user"}), "a", "", "", "the zebra runs")
	// Of user 8 each search is slow: it waits for their document.
	w.exec(`BEGIN`)
	w.exec(`LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE`)
	many := make(chan int, 50)
	for range cap(many) {
		one8.searchesAt(many)
	}
	waiting := func() int {
		return one[int](w, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database()`)
	}
	testkit.Eventually(t, 5*time.Second, func() error {
		if n := waiting(); n != 1 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	other := make(chan int, 1)
	one7.searchesAt(other)
	testkit.Eventually(t, 5*time.Second, func() error { // beside the one of user 8, while 49 of theirs wait
		if n := waiting(); n != 2 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	w.exec(`ROLLBACK`)
	require.Equal(t, http.StatusOK, <-other)
	for range cap(many) {
		require.Contains(t, []int{200, 503}, <-many)
	}
	require.Len(t, one8.finds("q=zebra"), 1)
}

func TestAnIndexThatSwallowsWhatItIsAskedIsNamed(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	at := config.Qdrant{URL: "http://" + listener.Addr().String(), Collection: "test"}
	w := newWorld(t, func(c *api.Config) { c.Qdrant = at })
	w.exec(`INSERT INTO search_index (name) VALUES ($1)`, search.IndexName(at, &embed.Hash{}))
	me := w.as(7, identity.User)
	r := me.do("GET", "/search?q=zebra", nil)
	me.refused(503, "unavailable", r)
	require.Contains(t, r.text, "search index")
}

func TestASearchSaysThatAnIndexNamedWhatIsNotForWhoAsked(t *testing.T) {
	t.Parallel()
	w, collection, _ := indexed(t)
	org, mine := w.source("org", identity.Ownership{UserID: 8, Scope: "org"}), w.source("mine", identity.Ownership{UserID: 7, Scope: "user"})
	var points []qdrant.Point
	add := func(connector int32, scope, name, text string) {
		document, try := w.stores(connector, name, "", "", text)
		vectors, err := (&embed.Hash{}).Embed(t.Context(), []string{text})
		require.NoError(t, err)
		points = append(points, qdrant.Point{Scope: scope, ConnectorID: connector, DocumentID: document, TryID: try, FirstNo: 1, Words: []string{"zebra"}, Vector: vectors[0]})
	}
	for i := range 260 {
		add(org, "org", fmt.Sprint(i), "zebra")
	}
	add(mine, "user_7", "a", "the zebra runs over the hill")
	require.NoError(t, collection.Upsert(t.Context(), 1, points))
	super := w.as(1, identity.Superadmin)
	whole := func(asked string) any { return super.get("/search?" + asked)["searched"].(map[string]any)["whole"] }
	require.Equal(t, false, whole("q=zebra&scope=user"), "the nearest 200 are of another scope")
	require.Equal(t, true, whole("q=zebra"))
	require.Equal(t, true, whole(fmt.Sprintf("q=zebra&source=%d", mine)))
}
