package files_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/chunker/files"
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
	require.Equal(t, files.LeftOut{Filtered: 600, Hidden: 1, Folders: 2}, r.LeftOut)
	require.Equal(t, "left out: files by include and exclude: 600; hidden files: 1; whole folders: 2", r.LeftOut.String())

	cfg.Include, cfg.Exclude, cfg.Hidden = nil, nil, true
	require.Empty(t, runWith(t, cfg, dir, newStore()).LeftOut.String())
}
