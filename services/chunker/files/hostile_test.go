package files_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/chunker/files/rootblob"
	"github.com/echomind/sync/services/internal/extract"
)

func TestNothingOutsideTheFolderIsRead(t *testing.T) {
	outside := folder(t, map[string]string{"secret.txt": "secret", "dir/deep.txt": "secret"})
	dir := folder(t, map[string]string{"real.txt": "fine", "sub/file.txt": "fine too"})
	links := map[string]string{
		"passwd.txt":      "/etc/passwd",
		"absolute.txt":    filepath.Join(outside, "secret.txt"),
		"relative.txt":    "../" + filepath.Base(outside) + "/secret.txt",
		"dir-out":         outside,
		"dir-in":          "sub",
		"loop":            "loop",
		"self":            ".",
		"sub/up":          "..",
		"nowhere":         "missing",
		"sub/inside.txt":  "../real.txt",
		"device":          "/dev/zero",
		"sub/climbing.md": "../../../../../../../../etc/passwd",
	}
	for name, target := range links {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	s := newStore()
	r := run(t, dir, s)
	require.True(t, r.Whole)
	require.Equal(t, 3, r.Put)
	require.Equal(t, len(links)-1, r.Failed)
	for id, d := range s.Docs() {
		switch id {
		case "real.txt", "sub/file.txt", "sub/inside.txt":
			require.Empty(t, d.Err)
			require.Contains(t, d.Chunks[0].Text, "fine")
		default:
			require.NotEmpty(t, d.Err, id)
			require.Empty(t, d.Chunks, id)
			require.NotContains(t, d.Err, dir)
		}
	}
	require.Contains(t, s.Docs()["dir-in"].Err, "folder")
	require.Equal(t, len(s.Docs()), run(t, dir, s).Unchanged)
}

func TestPipesSocketsAndDevicesFailWithoutBlocking(t *testing.T) {
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	require.NoError(t, os.Symlink("pipe", filepath.Join(dir, "link-to-pipe")))
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	require.NoError(t, err)
	defer l.Close()
	want := map[string]string{"pipe": "named pipe", "sock": "socket", "link-to-pipe": "named pipe"}
	if syscall.Mknod(filepath.Join(dir, "null"), syscall.S_IFCHR|0o644, 1<<8|3) == nil {
		want["null"] = "device"
	}
	s := newStore()
	require.Equal(t, len(want), run(t, dir, s).Failed)
	for id, kind := range want {
		require.Contains(t, s.Docs()[id].Err, kind)
	}
}

func TestStrangeNamesKeepTheirDocumentsApart(t *testing.T) {
	names := []string{
		"with space.txt", "new\nline.txt", "ünïcode/日本語.txt", "emoji 😀.txt", "100%.txt", "a%41.txt", "aA.txt", "bad\xff\xfe.txt",
		"bad%FF%FE.txt", "q?x#y&z=1.txt", "back\\slash.txt", "tab\t.txt", "..almost", "...", "[brackets].txt", "*.txt", "-", "~",
	}
	dir := t.TempDir()
	for _, n := range names {
		write(t, dir, n, "content of "+url.PathEscape(n), time.Hour)
	}
	cfg := config(dir)
	cfg.Hidden = true
	s := newStore()
	require.Equal(t, files.Result{Result: source.Result{Listed: len(names), Put: len(names)}, Whole: true}, runWith(t, cfg, dir, s))
	seen := map[string]bool{}
	for id, d := range s.Docs() {
		require.True(t, strings.ToValidUTF8(id, "") == id && !strings.ContainsAny(id, "\n\t\x00"), "%q", id)
		u, err := url.Parse(d.URL)
		require.NoError(t, err)
		content, err := os.ReadFile(u.Path)
		require.NoError(t, err, "the URL leads to the file")
		require.Equal(t, strings.TrimSpace(string(content)), d.Chunks[0].Text)
		seen[u.Path] = true
	}
	require.Len(t, seen, len(names))
	require.Equal(t, len(names), runWith(t, cfg, dir, s).Unchanged)
	require.Contains(t, s.Docs(), "bad%FF%FE.txt")
	require.Contains(t, s.Docs(), "bad%25FF%25FE.txt")
}

func TestLongPathsHaveBoundedIDs(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat(strings.Repeat("é", 100)+"/", 12)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, deep), 0o755))
	write(t, dir, deep+"a.txt", "one", time.Hour)
	write(t, dir, deep+"b.txt", "two", time.Hour)
	s := newStore()
	run(t, dir, s)
	require.Len(t, s.Docs(), 2)
	for id := range s.Docs() {
		require.LessOrEqual(t, len(id), files.MaxSourceIDBytes)
		require.Equal(t, strings.ToValidUTF8(id, ""), id)
	}
	require.Equal(t, 2, run(t, dir, s).Unchanged)
}

func TestAFolderThatCannotBeReadKeepsItsDocuments(t *testing.T) {
	if ranUnprivileged(t) {
		return
	}
	dir := folder(t, map[string]string{"a.txt": "a", "locked/b.txt": "b", "locked/c/d.txt": "d", "lockedx.txt": "x"})
	s := newStore()
	run(t, dir, s)
	mode(t, filepath.Join(dir, "locked"), 0)
	require.NoError(t, os.Remove(filepath.Join(dir, "lockedx.txt")))
	r := run(t, dir, s)
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Failed: 1, Unchanged: 3, Deleted: 1}, Whole: false}, r)
	require.Contains(t, s.Docs()["locked/"].Err, "permission denied")
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Unchanged: 4}, Whole: false}, run(t, dir, s))
	mode(t, filepath.Join(dir, "locked"), 0o755)
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Unchanged: 3, Deleted: 1}, Whole: true}, run(t, dir, s))
	require.Equal(t, []string{"a.txt", "locked/b.txt", "locked/c/d.txt"}, s.IDs())
}

func TestAFileThatMayNotBeReadFailsAloneAndIsTriedAgain(t *testing.T) {
	if ranUnprivileged(t) {
		return
	}
	dir := folder(t, map[string]string{"a.txt": "a", "b.txt": "b"})
	mode(t, filepath.Join(dir, "a.txt"), 0)
	s := newStore()
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Put: 1, Failed: 1}, Whole: true}, run(t, dir, s))
	require.Equal(t, "permission denied", s.Docs()["a.txt"].Err)
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Unchanged: 2}, Whole: true}, run(t, dir, s))
	mode(t, filepath.Join(dir, "a.txt"), 0o644)
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Put: 1, Unchanged: 1}, Whole: true}, run(t, dir, s))
	require.Empty(t, s.Docs()["a.txt"].Err)
}

func TestAFolderTooDeepKeepsItsDocuments(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("d/", 201)
	write(t, dir, deep+"x.txt", "x", time.Hour)
	s := newStore()
	s.Seed(worker.Document{SourceID: deep + "x.txt", VersionToken: "1-1", ContentHash: "x"})
	r := run(t, dir, s)
	require.False(t, r.Whole)
	require.Zero(t, r.Deleted)
	require.Contains(t, s.Docs()[strings.Repeat("d/", 200)].Err, "levels deep")
	require.Contains(t, s.Docs(), deep+"x.txt")
}

// within makes nested folders whose path has the greatest length, less one name.
func within(t *testing.T, dir string, folders int) (key string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	name := strings.Repeat("\x01", 255) // 765 bytes of a key
	deep := strings.Repeat(name+"/", 15) + name[:100] + "/"
	require.NoError(t, root.MkdirAll(deep, 0o700))
	for i := range folders {
		require.NoError(t, root.Mkdir(fmt.Sprintf("%s%04d%s", deep, i, name[:200]), 0o700))
	}
	require.NoError(t, root.WriteFile(deep+"a.txt", []byte("a"), 0o600))
	require.NoError(t, root.WriteFile(deep+name, []byte("b"), 0o600))
	return rootblob.Escape(deep)
}

func TestWhatHasTooLongAPathIsRefusedAndKeepsItsDocuments(t *testing.T) {
	dir := t.TempDir()
	key := within(t, dir, 1)
	s := newStore()
	below := key[:1980] + "~below" // as ids of long paths are cut
	s.Seed(worker.Document{SourceID: below, VersionToken: "1-1", ContentHash: "x"})
	s.Seed(worker.Document{SourceID: "gone.txt", VersionToken: "1-1", ContentHash: "x"})
	r := run(t, dir, s)
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Put: 1, Failed: 2, Unchanged: 1, Deleted: 1}}, r)
	require.Contains(t, s.Docs(), below)
	const tooLong = "its path in the source's folder is longer than 4096 bytes; shorten the names of the folders that it is in"
	reasons := map[string]int{}
	for _, d := range s.Docs() {
		reasons[d.Err]++
	}
	require.Equal(t, map[string]int{
		"": 2, tooLong: 1, "folder cannot be read: " + tooLong: 1,
	}, reasons)
	require.Equal(t, files.Result{Result: source.Result{Listed: 3, Unchanged: 4}}, run(t, dir, s))
}

// Each byte of a name in EUC-KR takes three in a key.
func TestAPathIsBoundedAsItIsAndNotAsItIsWritten(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	deep := strings.Repeat(strings.Repeat("\xb0\xa1", 127)+"/", 16)
	require.NoError(t, root.MkdirAll(deep, 0o700))
	longest := deep + strings.Repeat("b", 4096-len(deep))
	require.NoError(t, root.WriteFile(longest, []byte("some words"), 0o600))
	require.NoError(t, root.WriteFile(longest+"b", []byte("some words"), 0o600))
	s := newStore()
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Put: 1, Failed: 1}, Whole: true}, run(t, dir, s))
	for id, d := range s.Docs() {
		require.LessOrEqual(t, len(id), files.MaxSourceIDBytes)
		require.Empty(t, d.URL, "a part of a link leads elsewhere")
		require.Equal(t, d.Err == "", len(d.Chunks) == 1, d.Err)
	}
	require.Equal(t, files.Result{Result: source.Result{Listed: 2, Unchanged: 2}, Whole: true}, run(t, dir, s))
}

func TestAGrowingFileIsReadOnceAndSeenAgain(t *testing.T) {
	dir := folder(t, map[string]string{"log.txt": "line\n"})
	cfg := config(dir)
	cfg.MaxFileBytes = 1000
	s := newStore()
	grow := func() {
		f, err := os.OpenFile(filepath.Join(dir, "log.txt"), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(strings.Repeat("more\n", 50))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	s.OnPut = func(worker.Document) error { grow(); return nil }
	runWith(t, cfg, dir, s)
	require.Equal(t, 1, runWith(t, cfg, dir, s).Put, "what grew after the reading is seen by the next sync")
	for range 5 {
		runWith(t, cfg, dir, s)
	}
	require.Contains(t, s.Docs()["log.txt"].Err, "at most 1000")
}

func TestHostileContentInFilesFailsOrIsReadAlone(t *testing.T) {
	dir := folder(t, map[string]string{
		"utf16.txt": "\xff\xfeh\x00i\x00", "quotes.csv": "a,b\n\"x, \"\"y\"\"\",2\n", "deep.json": strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"bomb.html": "<html>" + strings.Repeat("<div>", 100_000) + "inner", "zip.md": "PK\x03\x04\x00\x00",
	})
	s := newStore()
	require.Equal(t, files.Result{Result: source.Result{Listed: 5, Put: 3, Failed: 2}, Whole: true}, run(t, dir, s))
	require.Equal(t, "hi", s.Docs()["utf16.txt"].Chunks[0].Text)
	require.Equal(t, "a | b\nx, \"y\" | 2", s.Docs()["quotes.csv"].Chunks[0].Text)
	require.Equal(t, "inner", s.Docs()["bomb.html"].Chunks[0].Text)
	require.Contains(t, s.Docs()["deep.json"].Err, "nested 5000 levels")
	require.Contains(t, s.Docs()["zip.md"].Err, "Archive")
}

func TestOnlyAllowedFoldersAreOpened(t *testing.T) {
	base := t.TempDir()
	allowed := filepath.Join(base, "allowed")
	write(t, allowed, "sub/a.txt", "a", time.Hour)
	write(t, base, "other/b.txt", "b", time.Hour)
	write(t, base, "allowed-not/c.txt", "c", time.Hour)
	require.NoError(t, os.Symlink(filepath.Join(base, "other"), filepath.Join(allowed, "out")))
	require.NoError(t, os.Symlink(filepath.Join(allowed, "sub"), filepath.Join(base, "in")))
	require.NoError(t, os.Symlink(allowed, filepath.Join(base, "alias")))

	open := func(path string, roots ...string) error {
		_, err := files.Sync(context.Background(), config(path), files.Options{Reader: extract.InProcess{}, Roots: files.OpenRoots(roots)}, newStore())
		return err
	}
	require.NoError(t, open(allowed, allowed))
	require.NoError(t, open(allowed+"/sub", "/nonexistent", allowed))
	require.NoError(t, open(allowed+"/sub", filepath.Join(base, "alias")), "the root may be a link")
	require.NoError(t, open(filepath.Join(base, "alias/sub"), allowed), "the folder may be reached by a link")
	require.NoError(t, open(filepath.Join(base, "in"), allowed))
	require.NoError(t, open(allowed, "/"))

	for name, err := range map[string]error{
		"no roots":             open(allowed),
		"beside":               open(filepath.Join(base, "other"), allowed),
		"same prefix":          open(filepath.Join(base, "allowed-not"), allowed),
		"above":                open(base, allowed),
		"link out":             open(filepath.Join(allowed, "out"), allowed),
		"missing":              open(filepath.Join(allowed, "missing"), allowed),
		"missing elsewhere":    open("/nonexistent/x", allowed),
		"a file":               open(filepath.Join(allowed, "sub/a.txt"), allowed),
		"a relative root":      open(allowed, "allowed"),
		"below a file":         open(filepath.Join(allowed, "sub/a.txt/x"), allowed),
		"dots":                 open(allowed+"/../other", allowed),
		"percent-encoded dots": open(allowed+"/%2e%2e/other", allowed),
	} {
		require.ErrorIs(t, err, worker.ErrPermanent, name)
	}
	require.ErrorContains(t, open(filepath.Join(allowed, "missing"), allowed), "does not exist")
	require.ErrorContains(t, open("/nonexistent/x", allowed), "not in an allowed root", "nothing is told about what is outside")
	require.ErrorContains(t, open(allowed), "CHUNKER_FILE_ROOTS")
}

func TestAFolderThatCannotBeListedIsWorthARetry(t *testing.T) {
	if ranUnprivileged(t) {
		return
	}
	dir := folder(t, map[string]string{"a": "1"})
	mode(t, dir, 0)
	s := newStore()
	s.Seed(worker.Document{SourceID: "a", VersionToken: "1-1"})
	_, err := files.Sync(t.Context(), config(dir), files.Options{Reader: extract.InProcess{}, Roots: files.OpenRoots([]string{filepath.Dir(dir)})}, s)
	require.ErrorContains(t, err, "permission denied")
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.Empty(t, s.deleted)
}

func TestAFolderRemovedWhileItIsListedDeletesNothing(t *testing.T) {
	for name, after := range map[string]func(dir string) error{
		"removed":  func(string) error { return nil },
		"replaced": func(dir string) error { return os.Mkdir(dir, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			base := folder(t, map[string]string{"source/a.txt": "a"})
			dir := filepath.Join(base, "source")
			s := newStore()
			run(t, dir, s)
			_, err := files.Sync(t.Context(), config(dir), options(base), &vanishing{s, func() {
				require.NoError(t, os.RemoveAll(dir))
				require.NoError(t, after(dir))
			}})
			require.Error(t, err)
			require.NotErrorIs(t, err, worker.ErrPermanent)
			require.Equal(t, []string{"a.txt"}, s.IDs())
		})
	}
}

type vanishing struct {
	*store
	vanish func()
}

func (v *vanishing) Known(ctx context.Context) (map[string]worker.Known, error) {
	v.vanish()
	return v.store.Known(ctx)
}

// ranUnprivileged runs the test again as nobody if it runs as root, for whom modes mean nothing.
func ranUnprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	const nobody = 65534
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Dir, cmd.Env = "/", []string{"TMPDIR=" + dir}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return true
}
