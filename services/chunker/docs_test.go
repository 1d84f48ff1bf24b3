package chunker

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/chunker/files"
)

func TestTheManualsNameEveryField(t *testing.T) {
	for manual, config := range map[string]any{"file": files.Config{}, "web": crawl.Config{}} {
		text, err := os.ReadFile("../../docs/" + manual + ".md")
		require.NoError(t, err)
		of := reflect.TypeOf(config)
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			require.Contains(t, string(text), "\n| `"+name+"` |", manual)
		}
	}
}

func TestAFolderOfWhichNothingIsTakenSaysSo(t *testing.T) {
	none, some := files.Result{Whole: true}, files.Result{Whole: true, Result: source.Result{Listed: 1}}
	nix := files.Config{Include: []string{"*.nix"}}
	require.Contains(t, remarkOf(nix, none), "none matches include (*.nix)")
	require.Contains(t, remarkOf(files.Config{}, none), "the folder is empty")
	require.Empty(t, remarkOf(nix, some))
	require.Empty(t, remarkOf(nix, files.Result{}), "what could not be listed may match")
}

func TestARemarkSaysWhatIsLeftOut(t *testing.T) {
	folder := files.Result{Whole: true, Result: source.Result{Listed: 1}, LeftOut: files.LeftOut{Hidden: files.Left{N: 2}}}
	require.Equal(t, "left out: hidden files: 2", remarkOf(files.Config{}, folder))
	require.Equal(t, "a bound", remarkOfSite(crawl.Result{Bound: "a bound"}))
	require.Empty(t, remarkOfSite(crawl.Result{}))
}
