package files_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/internal/extract"
)

// weighing compares the size of content with its reserved room.
type weighing struct {
	extract.InProcess
	t    *testing.T
	room *room.Room
	most int
}

func (w *weighing) Extract(ctx context.Context, content []byte, hint extract.Hint) (source.Content, error) {
	if room.Needed(int64(len(content))) {
		require.GreaterOrEqual(w.t, w.room.Taken(), room.Cost(int64(len(content))))
	}
	w.most = max(w.most, len(content))
	return w.InProcess.Extract(ctx, content, hint)
}

func TestAFileThatHasGrownSinceItWasListedHasRoomForWhatIsRead(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "first", "b.md": "small when it is listed"})
	roots := files.OpenRoots([]string{dir})
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	s := newStore()
	s.OnPut = func(d worker.Document) error {
		if d.SourceID != "a.md" {
			return nil
		}
		return os.WriteFile(filepath.Join(dir, "b.md"), []byte(strings.Repeat("grown ", 100_000)), 0o600)
	}
	shared := room.New(128 << 20)
	reader := &weighing{t: t, room: shared}
	_, err := files.Sync(t.Context(), config(dir), files.Options{Reader: reader, Roots: roots, Workers: 1, Room: shared.ForOwner("a")}, s)
	require.NoError(t, err)
	require.Equal(t, 600_000, reader.most)
	require.Empty(t, s.Docs()["b.md"].Err)
	require.Zero(t, shared.Taken())
}

// panicking panics at some files.
type panicking struct{ extract.InProcess }

func (p panicking) Extract(ctx context.Context, content []byte, hint extract.Hint) (source.Content, error) {
	if strings.Contains(string(content), "odd") {
		panic("an odd file")
	}
	return p.InProcess.Extract(ctx, content, hint)
}

func TestAFileThatHasItsReaderPanicFailsAlone(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "fine", "b.md": "odd", "c.md": "odd as well", "d.md": "fine"})
	roots := files.OpenRoots([]string{dir})
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	s, shared := newStore(), room.New(1<<20)
	r, err := files.Sync(t.Context(), config(dir), files.Options{
		Reader: panicking{}, Roots: roots, Workers: 1, InFlightBytes: 4, Room: shared.ForOwner("a"),
	}, s)
	require.NoError(t, err)
	require.Equal(t, 2, r.Put)
	require.Equal(t, 2, r.Failed)
	require.Contains(t, s.Docs()["b.md"].Err, "an odd file")
	require.Zero(t, shared.Taken())
}
