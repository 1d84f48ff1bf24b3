package onedrive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// below is a folder that is not synced, with n folders in it and one in each of these, with a file; and the folder that is synced.
func (w *world) below(n int) (top string) {
	top = w.fake.Folder(w.root, "Top")
	for i := range n {
		one := w.fake.Folder(top, fmt.Sprint("folder ", i))
		w.fake.File(w.fake.Folder(one, "inner"), "a.txt", fmt.Sprint("the text in ", i))
	}
	w.cfg.Item = w.fake.Folder(w.root, "Synced")
	return top
}

func (w *world) listings() map[string]int {
	n := map[string]int{}
	for _, path := range w.fake.Requests() {
		if strings.HasSuffix(path, "/children") {
			n[path]++
		}
	}
	return n
}

func TestAFolderThatHasComeIsReadOnceWithAllThatIsBelowIt(t *testing.T) {
	w := newWorld(t)
	top := w.below(300)
	w.sync()
	w.fake.Move(top, w.cfg.Item)
	w.fake.Requests()
	w.sync()
	listings := w.listings()
	require.Len(t, listings, 601)
	for path, n := range listings {
		require.LessOrEqual(t, n, 2, "%s has two pages", path)
	}
}

func TestVeryManyFoldersBelowOneThatHasComeAreReadWhereFewMayWait(t *testing.T) {
	w := newWorld(t)
	top := w.below(100)
	w.sync()
	w.heldBytes, w.pageSize = 1, 10
	w.fake.Move(top, w.cfg.Item)
	w.fake.Requests()
	w.sync()
	require.Len(t, w.sink.Docs(), 100)
	for path, n := range w.listings() {
		if !strings.Contains(path, top) {
			require.Equal(t, 1, n, path)
		}
	}
}
