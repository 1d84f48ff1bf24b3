package googledrive

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

func TestOfANameThatIsCutNothingElseIsKept(t *testing.T) {
	whole := strings.Repeat("ä", 15_000) + ".docx"
	f := item{Name: whole, Link: strings.Repeat("x", worker.MaxURLBytes+1)}
	f.clip()
	require.LessOrEqual(t, len(f.Name), worker.MaxTitleBytes)
	require.True(t, strings.HasPrefix(f.Name, "ää") && strings.HasSuffix(f.Name, "ä.docx"), f.Name)
	require.NotSame(t, unsafe.StringData(whole), unsafe.StringData(f.Name))
	require.Empty(t, f.Link)
	f = item{Name: "a." + whole}
	f.clip()
	require.LessOrEqual(t, len(f.Name), worker.MaxTitleBytes)
	f = item{Name: "plan.docx", Link: "https://drive.example/1"}
	f.clip()
	require.Equal(t, item{Name: "plan.docx", Link: "https://drive.example/1"}, f)
}

// heldSyncer is one whose tree has a root, and that has nowhere to store.
func heldSyncer(bytes int) *syncer {
	s := &syncer{opts: Options{HeldBytes: bytes}, state: state{Roots: map[string]string{"": "root"}, Cursors: map[string]string{"": "1"}}}
	s.known = map[string]worker.Known{}
	s.begin()
	return s
}

func TestFoldersBelowNoRootAreNotHeld(t *testing.T) {
	s := heldSyncer(1)
	for i := range 1000 {
		f := item{ID: fmt.Sprint(i), Name: "foreign", MimeType: folderType, Parents: []string{fmt.Sprint(i / 2)}}
		require.NoError(t, s.changesPage(t.Context(), "", []change{{FileID: f.ID, File: &f}}))
	}
	require.Empty(t, s.tree.folders)
	require.Empty(t, s.come)
	require.Empty(t, s.changed)
	require.Empty(t, s.left)
	require.Zero(t, s.held)
}

func TestAFolderThatIsReportedAgainIsHeldOnce(t *testing.T) {
	s := heldSyncer(128 << 10)
	for range 100 {
		require.NoError(t, s.hold(t.Context(), item{ID: "a", Link: strings.Repeat("x", 64<<10), Parents: []string{"p"}}))
	}
	require.NoError(t, s.hold(t.Context(), item{ID: "a", Name: "last"}))
	require.Equal(t, "last", s.changed["a"].title)
	require.Equal(t, s.changed["a"].weight("a"), s.held)
	s.drop("a")
	require.Zero(t, s.held)
}
