package onedrive

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/graph"
)

func TestFoldersAreHeldUpToABoundOfBytes(t *testing.T) {
	tree := newTree("root", nil)
	id := strings.Repeat("i", 16<<10)
	for i := 0; tree.full() == nil; i++ {
		require.Less(t, i, maxHeldBytes/len(id))
		tree.reported(graph.Item{ID: fmt.Sprint(i, id), Name: "folder"})
	}
	require.ErrorIs(t, tree.full(), ErrPermanent)
	require.ErrorContains(t, tree.full(), "at most 100663296 bytes of their ids; make connectors of its folders")
}

func TestAFolderThatIsReportedAgainIsHeldOnce(t *testing.T) {
	tree := newTree("root", nil)
	id := strings.Repeat("i", 16<<10)
	for i := range maxHeldBytes / len(id) {
		item := graph.Item{ID: id, Name: fmt.Sprint(i)}
		item.Parent.ID = "parent"
		tree.reported(item)
		tree.lost(id)
	}
	require.NoError(t, tree.full())
	for i := range 300_000 {
		require.NoError(t, tree.full())
		tree.set(fmt.Sprintf("%034d", i), folder{parent: id[:34], name: id[:16]})
	}
	require.NoError(t, tree.full())
}
