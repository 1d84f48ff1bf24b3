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

func TestFoldersAreHeldUpToABoundOfBytes(t *testing.T) {
	s := &syncer{changed: folders{}}
	name, parents := strings.Repeat("n", worker.MaxTitleBytes), []string{strings.Repeat("p", maxIDBytes)}
	var err error
	for i := 0; err == nil; i++ {
		require.Less(t, i, maxHeldBytes/len(name))
		err = s.hold(s.changed, item{ID: fmt.Sprint(i), Name: name, Parents: parents})
	}
	require.ErrorIs(t, err, errHeld)
	require.ErrorIs(t, tooManyFolders(err), ErrPermanent)
	require.ErrorContains(t, tooManyFolders(err), "source: there are more folders and shortcuts than are held at once: "+
		"at most 100663296 bytes of their names and addresses; make connectors of its folders")
	for id := range s.changed {
		s.drop(s.changed, id)
	}
	require.Zero(t, s.held)
}

func TestAFolderThatIsReportedAgainIsHeldOnce(t *testing.T) {
	s := &syncer{changed: folders{}}
	for range maxHeldBytes / (64 << 10) {
		require.NoError(t, s.hold(s.changed, item{ID: "a", Link: strings.Repeat("x", 64<<10), Parents: []string{"p"}}))
	}
	require.NoError(t, s.hold(s.changed, item{ID: "a", Name: "last"}))
	require.Equal(t, "last", s.changed["a"].title)
	require.Equal(t, s.changed["a"].weight("a"), s.held)
}

// 300,000 folders with names and ids as Drive has them.
func TestAsManyFoldersAsAreTakenAreHeldWithUsualNames(t *testing.T) {
	s := &syncer{}
	usual := item{ID: strings.Repeat("i", 33), Name: "Quarterly figures of 2026", Parents: []string{strings.Repeat("p", 33)}}
	usual.Link = "https://drive.google.com/drive/folders/" + usual.ID
	require.NoError(t, s.weigh(maxFolders*folder{title: usual.Name, link: usual.Link, parents: usual.Parents}.weight(usual.ID)))
}
