package onedrive

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
)

// wide is a folder with very many folders in it, in no order.
type wide struct {
	folders int
	listed  map[string]int
	look    func()
}

const widePage = 50

func (w *wide) RoundTrip(r *http.Request) (*http.Response, error) {
	var page struct {
		Value []map[string]any `json:"value"`
		Next  string           `json:"@odata.nextLink,omitempty"`
	}
	page.Value = []map[string]any{}
	if id := strings.Split(r.URL.Path, "/")[5]; id != "top" {
		w.listed[id]++
		w.look()
	} else {
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		for i := from; i < min(from+widePage, w.folders); i++ {
			page.Value = append(page.Value, map[string]any{
				"id": fmt.Sprintf("01%032d", i*7919%w.folders), "name": fmt.Sprint("folder ", i), "folder": map[string]any{},
				"parentReference": map[string]any{"id": "top"},
			})
		}
		if from+widePage < w.folders {
			page.Next = fmt.Sprintf("https://graph.example/v1.0/drives/d/items/top/children?from=%d", from+widePage)
		}
	}
	body, err := json.Marshal(page)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(string(body))),
	}, err
}

func TestWhatIsHeldOfFoldersBelowOneIsBounded(t *testing.T) {
	const bound, folders = 16 << 10, 1_500
	l := heldLister(bound)
	l.place.Drive, l.opts.PageSize = "d", widePage
	l.tree.set("top", folder{parent: "root"})
	most := 0
	w := &wide{folders: folders, listed: map[string]int{}, look: func() { most = max(most, l.tree.held) }}
	api, err := graph.New(graph.Options{Endpoint: "https://graph.example/v1.0", API: &http.Client{Transport: w}, Plain: &http.Client{Transport: w}})
	require.NoError(t, err)
	l.api = api
	require.NoError(t, l.listTree(context.Background(), "top", 0))
	require.Len(t, w.listed, folders)
	for id, n := range w.listed {
		require.Equal(t, 1, n, id)
	}
	require.LessOrEqual(t, most, bound)
}

// heldLister is one with which nothing is stored.
func heldLister(bytes int) *lister {
	l := &lister{opts: Options{HeldBytes: bytes}, pageFolders: map[string]struct{}{}, s: &source.Sync{}}
	l.place.Root, l.tree = "root", newTree("root", l.s.All())
	return l
}
