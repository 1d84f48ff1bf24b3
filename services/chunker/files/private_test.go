package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/chunker/files/rootblob"
	"github.com/echomind/sync/services/internal/extract"
)

const ownSecret = "a1b2c3d4:the-key-of-all-secrets"

// home is a folder with documents, beside everything that this program must never read.
func home(t *testing.T) (dir string, roots *files.Roots) {
	t.Helper()
	dir = folder(t, map[string]string{
		"notes.md": "fine", "sub/more.md": "fine too", "environment.md": "fine as well",
		"data/secrets.key": ownSecret, "data/postgres/base/1.md": ownSecret, "data/nats/x.txt": ownSecret,
		"keys/nats.creds": ownSecret, ".env": ownSecret, "sub/.ENV": ownSecret, "sub/.env.production": ownSecret, ".envrc": ownSecret,
	})
	for name, target := range map[string]string{
		"to-key.txt": "data/secrets.key", "sub/up.txt": "../data/secrets.key", "to-creds.txt": "keys/nats.creds", "to-env.txt": ".env",
		"twice.txt": "to-key.txt", "into": "data", "sub/around.txt": "../into/secrets.key", "case.txt": "sub/.ENV",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "keys/nats.creds"), filepath.Join(dir, "second-name.txt")))
	roots = files.OpenRoots([]string{dir}, filepath.Join(dir, "into"), filepath.Join(dir, "keys/nats.creds"), "/nonexistent/key")
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	return dir, roots
}

func TestTheProgramsOwnDataKeysAndEnvironmentFilesAreNeverRead(t *testing.T) {
	dir, roots := home(t)
	cfg := config(dir)
	cfg.Hidden = true
	s := newStore()
	r, err := files.Sync(context.Background(), cfg, files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	require.True(t, r.Whole, "what is never read does not keep other documents from being deleted")
	read := map[string]bool{"notes.md": true, "sub/more.md": true, "environment.md": true}
	for id, d := range s.Docs() {
		if read[id] {
			require.Empty(t, d.Err, id)
			continue
		}
		require.NotEmpty(t, d.Err, id)
		require.Empty(t, d.Chunks, id)
	}
	for _, id := range []string{
		"data", ".env", ".envrc", "sub/.ENV", "sub/.env.production", "keys/nats.creds", "second-name.txt", "to-key.txt", "sub/up.txt",
		"to-creds.txt", "to-env.txt", "twice.txt", "sub/around.txt", "case.txt",
	} {
		require.Contains(t, s.Docs()[id].Err, "it may hold this program's own secrets", id)
	}
	require.NotContains(t, strings.Join(s.IDs(), " "), "postgres", "nor are the names in it told")
	r, err = files.Sync(context.Background(), cfg, files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	require.Equal(t, len(s.Docs()), r.Unchanged)
}

func TestTheProgramsOwnFolderIsNoSourceHoweverItIsSpelled(t *testing.T) {
	dir, roots := home(t)
	elsewhere := filepath.Join(t.TempDir(), "alias")
	require.NoError(t, os.Symlink(filepath.Join(dir, "data"), elsewhere))
	inside := files.OpenRoots([]string{filepath.Join(dir, "data/postgres")}, filepath.Join(dir, "data"))
	itself := files.OpenRoots([]string{elsewhere}, filepath.Join(dir, "data"))
	t.Cleanup(func() { require.NoError(t, errors.Join(inside.Close(), itself.Close())) })
	for _, c := range []struct {
		path  string
		roots *files.Roots
	}{
		{dir + "/data", roots}, {dir + "//data/", roots}, {dir + "/./data", roots}, {dir + "/%64ata", roots}, {dir + "/data/postgres", roots},
		{dir + "/data/postgres/base", roots}, {dir + "/into", roots}, {dir + "/into/nats", roots}, {elsewhere, roots}, {elsewhere + "/postgres", roots},
		{dir + "/data/postgres", inside}, {dir + "/data/postgres/base", inside}, {elsewhere, itself}, {dir + "/data", itself},
	} {
		s := newStore()
		_, err := files.Sync(context.Background(), files.Config{URL: "file://" + c.path}, files.Options{Reader: extract.InProcess{}, Roots: c.roots}, s)
		require.ErrorIs(t, err, worker.ErrPermanent, c.path)
		require.ErrorContains(t, err, "is this program's own, and is never read", c.path)
		require.Empty(t, s.Docs())
	}
}

func TestTheEnvironmentOfProcessesIsNeverRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	roots := files.OpenRoots([]string{"/"})
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	for _, path := range []string{"/proc/self", "/proc", "/proc/1", "/sys/kernel"} {
		_, err := files.Sync(context.Background(), files.Config{URL: "file://" + path}, files.Options{Reader: extract.InProcess{}, Roots: roots}, newStore())
		require.ErrorIs(t, err, worker.ErrPermanent, path)
	}
}

func TestASecondNameOfAFileInTheDataFolderIsNeverRead(t *testing.T) {
	dir, roots := home(t)
	for name, target := range map[string]string{"innocent.md": "data/secrets.key", "sub/page.md": "data/postgres/base/1.md", "twin.md": "notes.md"} {
		require.NoError(t, os.Link(filepath.Join(dir, target), filepath.Join(dir, name)))
	}
	s := newStore()
	_, err := files.Sync(context.Background(), config(dir), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	for _, id := range []string{"innocent.md", "sub/page.md"} {
		require.Contains(t, s.Docs()[id].Err, "it may hold this program's own secrets", id)
		require.Empty(t, s.Docs()[id].Chunks)
	}
	require.Empty(t, s.Docs()["twin.md"].Err, "two names of what is nobody's secret are read")
}

// rotating replaces a key once a sync has begun.
type rotating struct {
	*store
	rotate func() error
}

func (r rotating) Known(ctx context.Context) (map[string]worker.Known, error) {
	if err := r.rotate(); err != nil {
		return nil, err
	}
	return r.store.Known(ctx)
}

func TestAKeyThatIsReplacedOrMadeWhileASyncRunsIsNeverRead(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "fine", "keys/nats.creds": "k1:old", "versions/1/tls.key": "k1:old", "versions/2/tls.key": ownSecret})
	require.NoError(t, os.Symlink("versions/1", filepath.Join(dir, "current")))
	roots := files.OpenRoots([]string{dir}, filepath.Join(dir, "keys/nats.creds"), filepath.Join(dir, "late.key"), filepath.Join(dir, "current/tls.key"))
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	s := newStore()
	_, err := files.Sync(context.Background(), config(dir), files.Options{Reader: extract.InProcess{}, Roots: roots}, rotating{s, func() error {
		fresh := filepath.Join(dir, "keys/fresh")
		return errors.Join(os.WriteFile(fresh, []byte(ownSecret), 0o600), os.Rename(fresh, filepath.Join(dir, "keys/nats.creds")),
			os.WriteFile(filepath.Join(dir, "late.key"), []byte(ownSecret), 0o600),
			os.Remove(filepath.Join(dir, "current")), os.Symlink("versions/2", filepath.Join(dir, "current")))
	}})
	require.NoError(t, err)
	for _, id := range []string{"keys/nats.creds", "late.key", "versions/1/tls.key", "versions/2/tls.key"} {
		require.Contains(t, s.Docs()[id].Err, "it may hold this program's own secrets", id)
	}
	require.Empty(t, s.Docs()["a.md"].Err)
}

// An author who may write into the folder replaces a folder that was just listed by a link to the data folder.
func TestAFolderThatBecomesALinkToTheProgramsOwnIsNotFollowed(t *testing.T) {
	dir := folder(t, map[string]string{"a-first.md": "fine", "sub/secrets.key": "harmless", "data/secrets.key": ownSecret})
	roots := files.OpenRoots([]string{dir}, filepath.Join(dir, "data"))
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	s := newStore()
	s.OnPut = func(d worker.Document) error {
		if d.SourceID != "a-first.md" {
			return nil
		}
		return errors.Join(os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "away")), os.Symlink("data", filepath.Join(dir, "sub")))
	}
	_, err := files.Sync(context.Background(), config(dir), files.Options{Reader: extract.InProcess{}, Roots: roots, Workers: 1}, s)
	require.NoError(t, err)
	for id, d := range s.Docs() {
		for _, c := range d.Chunks {
			require.NotContains(t, c.Text, ownSecret, id)
		}
	}
}

func TestARootThatIsRenamedAndReplacedByALinkLeadsNowhere(t *testing.T) {
	base := folder(t, map[string]string{"share/root/a.md": "fine", "others/hr.md": "what nobody may read"})
	root := filepath.Join(base, "share/root")
	roots := files.OpenRoots([]string{root})
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	require.NoError(t, os.Rename(root, root+"-away"))
	require.NoError(t, os.Symlink(filepath.Join(base, "others"), root))
	s := newStore()
	_, err := files.Sync(context.Background(), config(root), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.ErrorContains(t, err, "is not the folder any more that it was when this service started")
	require.NotErrorIs(t, err, worker.ErrPermanent, "it may be put back")
	require.Empty(t, s.Docs())

	require.NoError(t, os.Remove(root))
	require.NoError(t, os.Rename(root+"-away", root))
	_, err = files.Sync(context.Background(), config(root), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	require.Equal(t, []string{"a.md"}, s.IDs())
}

func TestARootThatIsMissingAtTheStartIsNotTakenFromWhoeverMakesItLater(t *testing.T) {
	base := folder(t, map[string]string{"others/hr.md": "what nobody may read"})
	root := filepath.Join(base, "late")
	roots := files.OpenRoots([]string{root})
	require.ErrorContains(t, roots.Problems(), "CHUNKER_FILE_ROOTS")
	require.NoError(t, os.Symlink(filepath.Join(base, "others"), root))
	s := newStore()
	_, err := files.Sync(context.Background(), config(root), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.ErrorContains(t, err, "could not be opened when this service started")
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.Empty(t, s.Docs())
}

func TestTheErrorTellsNeitherWhichRootsThereAreNorWhatIsOutside(t *testing.T) {
	base := folder(t, map[string]string{"open/a.md": "fine", "private-names/there.md": "x"})
	require.NoError(t, os.Symlink(filepath.Join(base, "private-names"), filepath.Join(base, "open/there")))
	require.NoError(t, os.Symlink(filepath.Join(base, "missing"), filepath.Join(base, "open/gone.")))
	roots := files.OpenRoots([]string{filepath.Join(base, "open"), filepath.Join(base, "private-names-2")})
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	said := func(path string) string {
		_, err := files.Sync(context.Background(), config(path), files.Options{Reader: extract.InProcess{}, Roots: roots}, newStore())
		require.ErrorIs(t, err, worker.ErrPermanent)
		return strings.ReplaceAll(err.Error(), path, "PATH")
	}
	exists, missing := said(filepath.Join(base, "private-names")), said(filepath.Join(base, "nothing"))
	require.Equal(t, missing, exists)
	require.NotContains(t, exists, base)
	require.Equal(t, said(filepath.Join(base, "open/gone.")), said(filepath.Join(base, "open/there")), "by a link in the root neither")
}

// A key with a second name, which the operator then replaced, is still a key.
func TestASecondNameOfWhatWasReplacedIsNeverRead(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "fine", "data/secrets.key": ownSecret, "keys/nats.creds": ownSecret})
	roots := files.OpenRoots([]string{dir}, filepath.Join(dir, "data"), filepath.Join(dir, "keys/nats.creds"))
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	for second, first := range map[string]string{"k.md": "data/secrets.key", "n.md": "keys/nats.creds"} {
		require.NoError(t, os.Link(filepath.Join(dir, first), filepath.Join(dir, second)))
		fresh := filepath.Join(dir, first+".new")
		require.NoError(t, os.WriteFile(fresh, []byte("another"), 0o600))
		require.NoError(t, os.Rename(fresh, filepath.Join(dir, first)))
	}
	s := newStore()
	_, err := files.Sync(t.Context(), config(dir), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	require.Empty(t, s.Docs()["a.md"].Err)
	for _, id := range []string{"k.md", "n.md"} {
		require.Equal(t, rootblob.ErrPrivate.Error(), s.Docs()[id].Err, id)
	}
}

func TestAKeyThatIsReplacedAndLinkedWhileASyncRunsIsNotReadByItsSecondName(t *testing.T) {
	dir := folder(t, map[string]string{"docs/a.md": "fine", "key": "old"})
	roots := files.OpenRoots([]string{filepath.Join(dir, "docs")}, filepath.Join(dir, "key"))
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	s := newStore()
	_, err := files.Sync(t.Context(), config(filepath.Join(dir, "docs")), files.Options{Reader: extract.InProcess{}, Roots: roots}, rotating{s, func() error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "new"), []byte(ownSecret), 0o600), os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "key")),
			os.Link(filepath.Join(dir, "key"), filepath.Join(dir, "docs/innocent.md")))
	}})
	require.NoError(t, err)
	require.Equal(t, rootblob.ErrPrivate.Error(), s.Docs()["innocent.md"].Err)
}

func TestWhatALinkInTheDataFolderLeadsToIsPrivateAsWell(t *testing.T) {
	dir := folder(t, map[string]string{"docs/a.md": "fine", "docs/pg/base.md": ownSecret, "docs/seed.md": ownSecret, "data/x": "x"})
	for name, target := range map[string]string{"data/postgres": "docs/pg", "data/seed": "docs/seed.md", "data/up": "docs/..", "data/self": "data"} {
		require.NoError(t, os.Symlink(filepath.Join(dir, target), filepath.Join(dir, name)))
	}
	roots := files.OpenRoots([]string{filepath.Join(dir, "docs")}, filepath.Join(dir, "data"))
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	s := newStore()
	_, err := files.Sync(t.Context(), config(filepath.Join(dir, "docs")), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	require.Empty(t, s.Docs()["a.md"].Err)
	for _, id := range []string{"pg", "seed.md"} {
		require.Equal(t, rootblob.ErrPrivate.Error(), s.Docs()[id].Err, id)
	}
	require.NotContains(t, s.Docs(), "pg/base.md")
}

// A file system gives the inode number of a deleted file to the next file.
func TestAFileThatHasTheNumberOfAnOldKeyIsReadLikeAnyOther(t *testing.T) {
	dir := folder(t, map[string]string{"docs/a.md": "fine", "data/secrets.key": ownSecret, "key": ownSecret})
	roots := files.OpenRoots([]string{filepath.Join(dir, "docs")}, filepath.Join(dir, "data"), filepath.Join(dir, "key"))
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	// The same inode, with another content and time, is such a file.
	require.NoError(t, os.Rename(filepath.Join(dir, "data/secrets.key"), filepath.Join(dir, "docs/b.md")))
	require.NoError(t, os.Rename(filepath.Join(dir, "key"), filepath.Join(dir, "docs/c.md")))
	for _, name := range []string{"docs/b.md", "docs/c.md"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("a document"), 0o600))
	}
	s := newStore()
	_, err := files.Sync(t.Context(), config(filepath.Join(dir, "docs")), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	for id, d := range s.Docs() {
		require.Empty(t, d.Err, id)
	}
}
