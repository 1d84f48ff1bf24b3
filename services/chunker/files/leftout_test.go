package files_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatAListingDoesNotTakeIsCountedOnce(t *testing.T) {
	texts := map[string]string{"a.md": "a", ".secret.md": "hidden", "drafts/x.md": "x", "drafts/y.md": "y", ".git/config": "c"}
	for i := range 600 { // more than two pages of the listing
		texts[fmt.Sprintf("data/%03d.csv", i)] = "1,2"
	}
	dir := folder(t, texts)
	cfg := config(dir)
	cfg.Include, cfg.Exclude = []string{"**/*.md"}, []string{"drafts/**"}
	r := runWith(t, cfg, dir, newStore())
	require.Equal(t, [3]int{600, 1, 2}, [3]int{r.LeftOut.Filtered.N, r.LeftOut.Hidden.N, r.LeftOut.Folders.N})
	names := r.LeftOut.Names()
	require.Len(t, names, 20+1+2)
	require.Regexp(t, `^left out, file by include and exclude: data/\d+\.csv$`, names[0])
	require.Equal(t, []string{"left out, hidden file: .secret.md", "left out, whole folder: .git", "left out, whole folder: drafts"}, slices.Sorted(slices.Values(names[20:])))
	require.Equal(t, "left out: files by include and exclude: 600; hidden files: 1; whole folders: 2", r.LeftOut.String())

	cfg.Include, cfg.Exclude, cfg.Hidden = nil, nil, true
	r = runWith(t, cfg, dir, newStore())
	require.Empty(t, r.LeftOut.String())
	require.Empty(t, r.LeftOut.Names())
}
