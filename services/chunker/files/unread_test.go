//go:build !race

// One thing after another for minutes: there is no race to find.

package files_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"

	"github.com/echomind/sync/services/chunker/files"
)

func TestMoreFoldersThatCannotBeReadThanAreToldApartKeepAllDocuments(t *testing.T) {
	for folders, deleted := range map[int]int{1000: 1, 1001: 0} {
		dir := t.TempDir()
		within(t, dir, folders)
		s := newStore()
		s.Seed(worker.Document{SourceID: "gone.txt", VersionToken: "1-1", ContentHash: "x"})
		r := run(t, dir, s)
		require.Equal(t, files.Result{Result: source.Result{Listed: folders + 2, Put: 1, Failed: folders + 1, Unchanged: 1 - deleted, Deleted: deleted}}, r)
	}
}
