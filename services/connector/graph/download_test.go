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

// SharePoint rewrites some files while it serves them: they never match what it lists.
func TestWhatIsNotAsListedIsBelievedOnceItHasComeTwiceTheSame(t *testing.T) {
	const as, listed = 20, 10
	for name, test := range map[string]struct {
		contents  []string // one after the other; the last again and again
		want      string
		downloads int
	}{
		"as it is listed":   {[]string{strings.Repeat("l", listed)}, strings.Repeat("l", listed), 1},
		"twice the same":    {[]string{strings.Repeat("a", as)}, strings.Repeat("a", as), 2},
		"a third time":      {[]string{strings.Repeat("b", as), strings.Repeat("a", as)}, strings.Repeat("a", as), 3},
		"always another":    {[]string{strings.Repeat("a", as), strings.Repeat("b", as), strings.Repeat("c", as), strings.Repeat("d", as)}, "", 4},
		"by turns":          {[]string{strings.Repeat("a", as), strings.Repeat("b", as), strings.Repeat("a", as), strings.Repeat("b", as)}, "", 4},
		"the same, and cut": {[]string{strings.Repeat("a", listed-1)}, "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			downloads := 0
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/content" {
					_, _ = fmt.Fprintf(w, `{"id":"i","size":%d,"@microsoft.graph.downloadUrl":"http://%s/content"}`, listed, r.Host)
					return
				}
				_, _ = w.Write([]byte(test.contents[min(downloads, len(test.contents)-1)]))
				downloads++
			}))
			t.Cleanup(api.Close)
			content, _, err := client(t, api.URL).Download(t.Context(), "d", graph.Item{ID: "i", Size: listed}, 1<<20)
			require.Equal(t, test.want, string(content))
			require.Equal(t, test.want == "", err != nil)
			require.Equal(t, test.downloads, downloads)
		})
	}
}
