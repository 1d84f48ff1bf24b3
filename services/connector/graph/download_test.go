package graph_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/graph"
)

// Room is taken for what is listed.
func TestAFileThatIsMuchLargerThanListedIsNotRead(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/drives/d/items/asked" {
			_, _ = fmt.Fprintf(w, `{"id":"asked","size":10485760,"@microsoft.graph.downloadUrl":"http://%s/content"}`, r.Host)
			return
		}
		for range 1024 {
			if _, err := w.Write([]byte(strings.Repeat("x", 10<<10))); err != nil {
				return
			}
		}
	}))
	t.Cleanup(api.Close)
	c := client(t, api.URL)
	for _, item := range []graph.Item{{ID: "listed", Size: 1, DownloadURL: api.URL + "/content"}, {ID: "asked", Size: 1}} {
		content, _, err := c.Download(t.Context(), "d", item, 32<<20)
		require.ErrorIs(t, err, graph.ErrGrown, item.ID)
		require.ErrorContains(t, err, "listed were 1")
		require.Nil(t, content)
	}
	_, _, err := c.Download(t.Context(), "d", graph.Item{ID: "x", Size: 33 << 20, DownloadURL: api.URL}, 32<<20)
	require.ErrorIs(t, err, graph.ErrTooLarge)
}
