package files_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/internal/extract"
)

func TestMain(m *testing.M) {
	confine.Serve(extract.Task)
	goleak.VerifyTestMain(m)
}

// store is a connector over several syncs, and the documents that the last of them sent.
type store struct {
	*workertest.Store
	mu                    sync.Mutex
	put, touched, deleted []string
	unchanged             int
}

func newStore() *store { return &store{Store: workertest.New()} }

func (s *store) Known(ctx context.Context) (map[string]worker.Known, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put, s.touched, s.deleted, s.unchanged = nil, nil, nil, 0
	return s.Store.Known(ctx)
}

func (s *store) Put(ctx context.Context, d worker.Document) error {
	s.note(&s.put, d.SourceID)
	return s.Store.Put(ctx, d)
}

func (s *store) Touch(ctx context.Context, d worker.Document) error {
	s.note(&s.touched, d.SourceID)
	return s.Store.Touch(ctx, d)
}

func (s *store) Delete(ctx context.Context, id string) error {
	s.note(&s.deleted, id)
	return s.Store.Delete(ctx, id)
}

func (s *store) Unchanged(n int) { s.unchanged += n }

func (s *store) note(in *[]string, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*in = append(*in, id)
}

// folder writes files into a new folder, with times of change an hour ago.
func folder(t testing.TB, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		write(t, dir, name, text, time.Hour)
	}
	return dir
}

func write(t testing.TB, dir, name, text string, age time.Duration) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	at := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(path, at, at))
}

func config(dir string) files.Config { return files.Config{URL: "file://" + dir} }

func options(dir string) files.Options {
	return files.Options{Reader: extract.InProcess{}, Roots: files.OpenRoots([]string{dir}), Workers: 4}
}

func run(t testing.TB, dir string, s *store) files.Result {
	t.Helper()
	return runWith(t, config(dir), dir, s)
}

func runWith(t testing.TB, cfg files.Config, dir string, s *store) files.Result {
	t.Helper()
	r, err := files.Sync(context.Background(), cfg, options(dir), s)
	require.NoError(t, err)
	s.Complete()
	require.Equal(t, r.Unchanged, s.unchanged)
	require.Equal(t, r.Deleted, len(s.deleted))
	require.Equal(t, r.Put+r.Failed, len(s.put))
	return r
}

func TestAddedChangedAndDeletedFilesAreFound(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "# A\n\ntext", "sub/b.txt": "b text", "sub/c.txt": "c text"})
	s := newStore()
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Put: 3}, Whole: true}, run(t, dir, s))
	require.Equal(t, []string{"a.md", "sub/b.txt", "sub/c.txt"}, s.IDs())
	a := s.Docs()["a.md"]
	require.Equal(t, "A", a.Title)
	require.Equal(t, "text/markdown", a.MediaType)
	require.Equal(t, "file://"+dir+"/a.md", a.URL)
	require.Len(t, a.Chunks, 1)
	require.Equal(t, "b.txt", s.Docs()["sub/b.txt"].Title)
	info, err := os.Stat(filepath.Join(dir, "a.md"))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano()), a.VersionToken[strings.Index(a.VersionToken, " ")+1:])

	write(t, dir, "a.md", "# A\n\nother", time.Minute)
	write(t, dir, "d.md", "new", time.Minute)
	require.NoError(t, os.Remove(filepath.Join(dir, "sub/c.txt")))
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Put: 2, Unchanged: 1, Deleted: 1}, Whole: true}, run(t, dir, s))
	require.ElementsMatch(t, []string{"a.md", "d.md"}, s.put)
	require.Equal(t, []string{"sub/c.txt"}, s.deleted)
}

func TestAnUnchangedFileIsNotRead(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "first"})
	s := newStore()
	run(t, dir, s)
	info, err := os.Stat(filepath.Join(dir, "a.txt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("other"), 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a.txt"), info.ModTime(), info.ModTime()))
	r := run(t, dir, s)
	require.Equal(t, files.Result{Result: source.Result{Listed: 1, Unchanged: 1}, Whole: true}, r)
	require.False(t, r.Changed())
}

func TestATouchedFileOnlyGetsANewToken(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "same"})
	s := newStore()
	run(t, dir, s)
	before := s.Docs()["a.txt"].VersionToken
	write(t, dir, "a.txt", "same", time.Minute)
	require.Equal(t, files.Result{Result: source.Result{Listed: 1, Touched: 1}, Whole: true}, run(t, dir, s))
	require.NotEqual(t, before, s.Docs()["a.txt"].VersionToken)
	require.Equal(t, files.Result{Result: source.Result{Listed: 1, Unchanged: 1}, Whole: true}, run(t, dir, s))
}

func TestABadFileFailsAloneAndOnlyOnce(t *testing.T) {
	dir := folder(t, map[string]string{"good.md": "fine", "bad.pdf": "%PDF-1.7 x", "big.txt": strings.Repeat("x", 200)})
	cfg := config(dir)
	cfg.MaxFileBytes = 100
	s := newStore()
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Put: 1, Failed: 2}, Whole: true}, runWith(t, cfg, dir, s))
	require.Contains(t, s.Docs()["bad.pdf"].Err, "PDF (application/pdf)")
	require.Contains(t, s.Docs()["big.txt"].Err, "200 bytes, at most 100")
	require.Empty(t, s.Docs()["bad.pdf"].VersionToken)
	r := runWith(t, cfg, dir, s)
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Unchanged: 3}, Whole: true}, r)
	require.False(t, r.Changed(), "a known failure does not make a sync")

	write(t, dir, "bad.pdf", "%PDF-1.8 changed", time.Minute)
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Failed: 1, Unchanged: 2}, Whole: true}, runWith(t, cfg, dir, s))
	write(t, dir, "bad.pdf", "text now", time.Second)
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Put: 1, Unchanged: 2}, Whole: true}, runWith(t, cfg, dir, s))
	require.Empty(t, s.Docs()["bad.pdf"].Err)
}

func TestADocumentOfAnEarlierConfigurationIsPutAgain(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "a", "b.pdf": "%PDF-1.7"})
	s := newStore()
	run(t, dir, s)
	s.Reconfigure()
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Put: 1, Failed: 1}, Whole: true}, run(t, dir, s))
}

func TestAFileThatVanishesBeforeItIsReadIsGone(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "a", "b.txt": "b", "c.txt": "c"})
	s := newStore()
	run(t, dir, s)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		write(t, dir, name, name+" changed", time.Minute)
	}
	write(t, dir, "d.txt", "never known", time.Minute)
	var once sync.Once
	s.OnPut = func(worker.Document) error {
		once.Do(func() {
			for _, name := range []string{"b.txt", "c.txt", "d.txt"} {
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
			}
		})
		return nil
	}
	opts := options(dir)
	opts.Workers = 1
	r, err := files.Sync(t.Context(), config(dir), opts, s)
	require.NoError(t, err)
	require.Equal(t, files.Result{Result: source.Result{Listed: 4, Put: 1, Deleted: 2}, Whole: true}, r)
	require.Equal(t, []string{"a.txt"}, s.IDs())
}

func TestIncludeExcludeAndHiddenFilesAreFollowed(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.md": "a", "b.txt": "b", "docs/c.md": "c", "docs/deep/d.md": "d", "vendor/e.md": "e", ".git/config": "x", ".env": "y", "docs/.hidden/f.md": "f"})
	for name, c := range map[string]struct {
		cfg  files.Config
		want []string
	}{
		"by default": {files.Config{}, []string{"a.md", "b.txt", "docs/c.md", "docs/deep/d.md", "vendor/e.md"}},
		"include":    {files.Config{Include: []string{"**/*.md"}}, []string{"a.md", "docs/c.md", "docs/deep/d.md", "vendor/e.md"}},
		"exclude":    {files.Config{Exclude: []string{"vendor/**", "*.txt"}}, []string{"a.md", "docs/c.md", "docs/deep/d.md"}},
		"both":       {files.Config{Include: []string{"docs/**"}, Exclude: []string{"docs/deep"}}, []string{"docs/c.md"}},
		"hidden": {files.Config{Hidden: true, Exclude: []string{"docs", "vendor"}},
			[]string{".env", ".git/config", "a.md", "b.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.URL = "file://" + dir
			s := newStore()
			runWith(t, c.cfg, dir, s)
			require.Equal(t, c.want, s.IDs())
		})
	}
}

func TestTooManyFilesFailTheSync(t *testing.T) {
	dir := folder(t, map[string]string{"a": "1", "b": "2", "c": "3"})
	cfg := config(dir)
	cfg.MaxFiles = 2
	s := newStore()
	s.Seed(worker.Document{SourceID: "gone", VersionToken: "1-1"})
	_, err := files.Sync(t.Context(), cfg, options(dir), s)
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "max_files")
	require.Empty(t, s.deleted, "the listing did not end")
}

// The names of one folder are in memory together.
func TestAFolderOfManyNamesFailsTheSyncBeforeAllAreRead(t *testing.T) {
	dir := folder(t, map[string]string{"deep/a": "1"})
	defer files.SetFoldersInOne(100)()
	for i := range 110 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "deep", strconv.Itoa(i)), 0o700))
	}
	cfg := config(dir)
	cfg.MaxFiles = 2
	_, err := files.Sync(t.Context(), cfg, options(dir), newStore())
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "max_files: the folder holds more than 2 files")
}

func TestNamesThatTakeTooMuchMemoryAtOnceFailTheSync(t *testing.T) {
	defer files.SetMaxNamesBytes(1 << 20)()
	dir := t.TempDir()
	for i := range 4200 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+strings.Repeat("x", 240)), nil, 0o600))
	}
	cfg := config(dir)
	_, err := files.Sync(t.Context(), cfg, options(dir), newStore())
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "takes more than 1 MB at once; spread its files over more folders, or narrow include and exclude")
	cfg.Exclude = []string{"1*"}
	r, err := files.Sync(t.Context(), cfg, options(dir), newStore())
	require.NoError(t, err)
	require.Equal(t, 3089, r.Listed)
}

func TestPathsThatTakeTooMuchMemoryTogetherFailTheSync(t *testing.T) {
	defer files.SetMaxIDBytes(5)()
	for n, ok := range map[int]bool{5: true, 6: false} {
		dir := t.TempDir()
		for i := range n {
			write(t, dir, strconv.Itoa(i), "x", time.Hour)
		}
		_, err := files.Sync(t.Context(), config(dir), options(dir), newStore())
		if ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, worker.ErrPermanent)
		require.ErrorContains(t, err, "the paths of the files take more than 5 bytes together")
	}
}

func TestAnEmptiedFolderDeletesEverythingOnceThatIsAllowed(t *testing.T) {
	dir := folder(t, map[string]string{"a": "1", "b/c": "2"})
	s := newStore()
	run(t, dir, s)
	require.NoError(t, os.Remove(filepath.Join(dir, "a")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "b")))
	_, err := files.Sync(t.Context(), config(dir), options(dir), s)
	require.ErrorContains(t, err, "--allow-deletions")
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.Empty(t, s.deleted)
	s.Allows = true
	require.Equal(t, files.Result{Result: source.Result{Deleted: 2}, Whole: true}, run(t, dir, s))
}

func TestAFolderThatWasThereAndIsNotIsAway(t *testing.T) {
	base := folder(t, map[string]string{"source/a.txt": "a"})
	dir := filepath.Join(base, "source")
	s := newStore()
	_, err := files.Sync(t.Context(), config(dir), options(base), s)
	require.NoError(t, err)
	s.Complete()
	require.NoError(t, os.Rename(dir, dir+"-elsewhere"))
	_, err = files.Sync(t.Context(), config(dir), options(base), s)
	require.ErrorContains(t, err, "is not there now")
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.NoError(t, os.Rename(dir+"-elsewhere", dir))
	require.Equal(t, 1, runWith(t, config(dir), base, s).Unchanged)
}

func TestAnEmptyFileIsADocumentWithoutChunks(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": " \n"})
	s := newStore()
	run(t, dir, s)
	require.Empty(t, s.Docs()["a.txt"].Chunks)
	require.Empty(t, s.Docs()["a.txt"].Err)
}

func TestSinkErrorsEndTheSyncAsTheyAre(t *testing.T) {
	dir := folder(t, map[string]string{"a": "1", "b": "2", "c": "3"})
	broken := errors.New("fenced")
	s := newStore()
	s.OnPut = func(worker.Document) error { return broken }
	_, err := files.Sync(t.Context(), config(dir), options(dir), s)
	require.Equal(t, broken, err)
	_, err = files.Sync(t.Context(), config(dir), options(dir), brokenSink{s, broken})
	require.Equal(t, broken, err)
}

type brokenSink struct {
	*store
	err error
}

func (b brokenSink) Known(context.Context) (map[string]worker.Known, error) { return nil, b.err }

func TestAnEndedContextEndsTheSync(t *testing.T) {
	dir := folder(t, map[string]string{"a": "1", "b": "2"})
	ctx, cancel := context.WithCancel(t.Context())
	s := newStore()
	s.Seed(worker.Document{SourceID: "gone", VersionToken: "1-1"})
	s.OnPut = func(worker.Document) error { cancel(); return ctx.Err() }
	_, err := files.Sync(ctx, config(dir), options(dir), s)
	require.Equal(t, context.Canceled, err)
	require.Empty(t, s.deleted)
}

func TestFilesLargerThanTheBudgetAreReadAlone(t *testing.T) {
	content := map[string]string{}
	for i := range 20 {
		content[fmt.Sprint(i)] = strings.Repeat("words ", 100)
	}
	dir := folder(t, content)
	opts := options(dir)
	opts.InFlightBytes = 10
	r, err := files.Sync(t.Context(), config(dir), opts, newStore())
	require.NoError(t, err)
	require.Equal(t, 20, r.Put)
}

func TestAFreshlyWrittenFileIsReadAfterItsTick(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.txt", "now", 0)
	start := time.Now()
	info, err := os.Stat(filepath.Join(dir, "a.txt"))
	require.NoError(t, err)
	opts := options(dir)
	opts.Now = info.ModTime
	s := newStore()
	_, err = files.Sync(t.Context(), config(dir), opts, s)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
	require.Equal(t, []string{"a.txt"}, s.IDs())
}

func TestALinkThatLeadsNowhereIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("target.txt", filepath.Join(dir, "link.txt")))
	s := newStore()
	require.Equal(t, 1, run(t, dir, s).Failed)
	require.Equal(t, 1, run(t, dir, s).Unchanged)
	write(t, dir, "target.txt", "there now", time.Hour)
	require.Equal(t, 2, run(t, dir, s).Put)
	require.Empty(t, s.Docs()["link.txt"].Err)
}

func mode(t *testing.T, path string, m fs.FileMode) {
	t.Helper()
	require.NoError(t, os.Chmod(path, m))
	t.Cleanup(func() { _ = os.Chmod(path, 0o755) })
}
