package onedrive

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/testonly/fakegraph"
)

func folderIn(parent, id string) graph.Item {
	item := graph.Item{ID: id, Name: "folder", Folder: &struct {
		ChildCount *int `json:"childCount"`
	}{}}
	item.Parent.ID = parent
	return item
}

func TestAFolderThatIsReportedAgainIsHeldOnce(t *testing.T) {
	tree := heldLister(0).tree
	id := strings.Repeat("i", 16<<10)
	for range 10 {
		tree.update(folderIn("parent", id))
		tree.lost(id)
	}
	require.Equal(t, folderOverhead+len(id)+len("parent")+len(nameHash("folder")), tree.held)
}

func TestNoMoreFoldersAreHeldThanThereIsRoomFor(t *testing.T) {
	fake := fakegraph.New()
	t.Cleanup(fake.Close)
	drive, root := fake.NewDrive("Documents", "")
	top := fake.Folder(root, "Top")
	deepest := top
	for range 50 {
		fake.Folder(top, "beside")
		deepest = fake.Folder(deepest, "deep")
	}
	const bytes, page = 2000, 10
	newLister := func() *lister {
		s := heldLister(bytes)
		s.place.Drive, s.place.Root, s.opts.PageSize = drive, root, page
		s.tree = newTree(root, s.s.All())
		api, err := graph.New(graph.Options{Endpoint: fake.Endpoint(), API: fake.Client(), Plain: fake.Plain()})
		require.NoError(t, err)
		s.api = api
		return s
	}
	t.Run("of pages", func(t *testing.T) {
		s := newLister()
		for i := range 50 {
			var items []graph.Item
			for j := range page {
				items = append(items, folderIn(root, fmt.Sprint(i*page+j)))
			}
			s.listing = true
			require.NoError(t, s.page(t.Context(), items))
			require.Less(t, len(s.tree.folders), bytes/folderOverhead+page)
		}
	})
	t.Run("below a folder", func(t *testing.T) {
		s := newLister()
		require.NoError(t, s.listTree(t.Context(), top, 0))
		require.LessOrEqual(t, s.tree.held, bytes)
	})
	t.Run("above an item", func(t *testing.T) {
		s := newLister()
		steps, at, err := s.foldersAbove(t.Context(), deepest)
		require.NoError(t, err)
		require.Equal(t, inside, at)
		require.Len(t, steps, 51)
		require.LessOrEqual(t, s.tree.held, bytes)
	})
	t.Run("what the page names stays", func(t *testing.T) {
		store := workertest.New()
		_, err := store.Known(t.Context())
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), worker.Document{
			SourceID: "doc", VersionToken: "token", ContentHash: "hash", Memo: json.RawMessage(`{"in":["named~old","stored~s"]}`),
		}))
		_, err = source.Run(t.Context(), store, listerFunc(func(ctx context.Context, in *source.Sync) (any, error) {
			s := newLister()
			s.s, s.tree = in, newTree(root, in.All())
			s.tree.lost("stored")
			s.tree.update(folderIn(root, "named"))
			s.pageFolders["named"] = struct{}{}
			s.opts.HeldBytes = 1
			require.NoError(t, s.shrinkTree())
			require.Equal(t, folder{parent: root, name: nameHash("folder")}, s.tree.folders["named"])
			require.Equal(t, outside, s.tree.folders["stored"].at)
			require.Len(t, s.tree.folders, 2)
			return nil, nil
		}), source.Options{})
		require.NoError(t, err)
	})
}

type listerFunc func(ctx context.Context, s *source.Sync) (any, error)

func (f listerFunc) List(ctx context.Context, s *source.Sync) (any, error) { return f(ctx, s) }
