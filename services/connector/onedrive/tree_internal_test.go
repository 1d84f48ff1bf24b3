package onedrive

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/fakegraph"
)

func heldSyncer(bytes int) *syncer {
	s := &syncer{opts: Options{HeldBytes: bytes}, named: map[string]struct{}{}, known: map[string]worker.Known{}}
	s.state.Root, s.tree = "root", newTree("root", nil)
	return s
}

func folderIn(parent, id string) graph.Item {
	item := graph.Item{ID: id, Name: "folder", Folder: &struct {
		ChildCount *int `json:"childCount"`
	}{}}
	item.Parent.ID = parent
	return item
}

func TestAFolderThatIsReportedAgainIsHeldOnce(t *testing.T) {
	tree := newTree("root", nil)
	id := strings.Repeat("i", 16<<10)
	for range 10 {
		tree.reported(folderIn("parent", id))
		tree.lost(id)
	}
	require.Equal(t, heldBeside+len(id)+len("parent")+len(nameHash("folder")), tree.held)
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
	newSyncer := func() *syncer {
		s := heldSyncer(bytes)
		s.state.Drive, s.state.Root, s.opts.PageSize = drive, root, page
		s.tree = newTree(root, nil)
		api, err := graph.New(graph.Options{Endpoint: fake.Endpoint(), API: fake.Client(), Plain: fake.Plain()})
		require.NoError(t, err)
		s.api = api
		return s
	}
	t.Run("of pages", func(t *testing.T) {
		s := newSyncer()
		for i := range 50 {
			var items []graph.Item
			for j := range page {
				items = append(items, folderIn(root, fmt.Sprint(i*page+j)))
			}
			s.listing = true
			require.NoError(t, s.page(t.Context(), items))
			require.Less(t, len(s.tree.folders), bytes/heldBeside+page)
		}
	})
	t.Run("below a folder", func(t *testing.T) {
		s := newSyncer()
		require.NoError(t, s.under(t.Context(), top, 0))
		require.LessOrEqual(t, s.tree.held, bytes)
	})
	t.Run("above an item", func(t *testing.T) {
		s := newSyncer()
		steps, at, err := s.above(t.Context(), deepest)
		require.NoError(t, err)
		require.Equal(t, inside, at)
		require.Len(t, steps, 51)
		require.LessOrEqual(t, s.tree.held, bytes)
	})
	t.Run("what the page names stays", func(t *testing.T) {
		s := newSyncer()
		named := folderIn(root, "named")
		s.known["doc"] = worker.Known{VersionToken: token{folders: []step{{"named", "old"}, {"stored", "s"}}}.String()}
		s.tree.lost("stored")
		s.tree.reported(named)
		s.named["named"] = struct{}{}
		s.opts.HeldBytes = 1
		s.forget()
		require.Equal(t, folder{parent: root, name: nameHash("folder")}, s.tree.folders["named"])
		require.True(t, s.tree.folders["stored"].gone)
		require.Len(t, s.tree.folders, 2)
	})
}
