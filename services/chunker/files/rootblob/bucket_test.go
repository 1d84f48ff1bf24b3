package rootblob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"pgregory.net/rapid"

	"github.com/echomind/sync/services/chunker/files/rootblob"
)

func open(t testing.TB, dir string) *blob.Bucket {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	b := rootblob.Open(root, nil)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func list(t testing.TB, b *blob.Bucket, size int, opts *blob.ListOptions) []string {
	t.Helper()
	var keys []string
	for token := blob.FirstPageToken; len(token) > 0; {
		page, next, err := b.ListPage(context.Background(), token, size, opts)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), size)
		for _, o := range page {
			keys = append(keys, o.Key)
		}
		token = next
	}
	return keys
}

var names = []string{"a/x", "a/y/z", "a!b", "a.txt", "a0", "b", "b-/q", "c/d/e/f", "c/d/e-", "ü/ä", "Z", "new\nline", "bad\xff", "p%41q"}

func tree(t testing.TB) (*blob.Bucket, []string) {
	t.Helper()
	dir := t.TempDir()
	var want []string
	for _, n := range names {
		write(t, dir, n, "content of "+n)
		want = append(want, rootblob.Escape(n))
	}
	slices.Sort(want)
	return open(t, dir), want
}

func TestKeysAreListedInOrderAcrossPagesOfAnySize(t *testing.T) {
	b, want := tree(t)
	for size := 1; size <= len(want)+1; size++ {
		require.Equal(t, want, list(t, b, size, nil), "pages of %d", size)
	}
}

func TestAPageCanBeAskedForAgain(t *testing.T) {
	b, want := tree(t)
	_, second, err := b.ListPage(t.Context(), blob.FirstPageToken, 5, nil)
	require.NoError(t, err)
	for range 3 {
		page, _, err := b.ListPage(t.Context(), second, 3, nil)
		require.NoError(t, err)
		require.Equal(t, want[5:8], []string{page[0].Key, page[1].Key, page[2].Key})
	}
}

func TestPrefixAndDelimiterGroupKeys(t *testing.T) {
	b, want := tree(t)
	for _, prefix := range []string{"a", "a/", "c/d", "c/d/e/", "nothing", "ü"} {
		var filtered []string
		for _, k := range want {
			if strings.HasPrefix(k, prefix) {
				filtered = append(filtered, k)
			}
		}
		require.Equal(t, filtered, list(t, b, 2, &blob.ListOptions{Prefix: prefix}), prefix)
	}
	for size := 1; size < 12; size++ {
		require.Equal(t, []string{"Z", "a!b", "a.txt", "a/", "a0", "b", "b-/", "bad%FF", "c/", "new%0Aline", "p%2541q", "ü/"},
			list(t, b, size, &blob.ListOptions{Delimiter: "/"}), "pages of %d", size)
		require.Equal(t, []string{"c/d/e-", "c/d/e/"}, list(t, b, size, &blob.ListOptions{Prefix: "c/d/", Delimiter: "/"}))
	}
}

func TestSkippedFoldersAreNotEntered(t *testing.T) {
	b, _ := tree(t)
	var asked []string
	keys := list(t, b, 100, &blob.ListOptions{BeforeList: func(as func(any) bool) error {
		var l *rootblob.Listing
		require.True(t, as(&l))
		l.Skip = func(dir string) bool { asked = append(asked, dir); return dir == "a" || dir == "c/d" }
		return nil
	}})
	require.NotContains(t, keys, "a/x")
	require.NotContains(t, keys, "c/d/e-")
	require.NotContains(t, asked, "a/y")
}

func TestFilesAreReadWholeAndInPart(t *testing.T) {
	b, want := tree(t)
	for _, key := range want {
		got, err := b.ReadAll(t.Context(), key)
		require.NoError(t, err)
		name, err := rootblob.Unescape(key)
		require.NoError(t, err)
		require.Equal(t, "content of "+name, string(got))
		attrs, err := b.Attributes(t.Context(), key)
		require.NoError(t, err)
		require.EqualValues(t, len(got), attrs.Size)
	}
	r, err := b.NewRangeReader(t.Context(), "b", 3, 4, nil)
	require.NoError(t, err)
	defer r.Close()
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "tent", string(got))
	require.EqualValues(t, 12, r.Size())
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	b, _ := tree(t)
	for _, key := range []string{"missing", "a/missing", "missing/x", "%2Fetc%2Fpasswd", "/etc/passwd", "x%00y"} {
		_, err := b.NewReader(t.Context(), key, nil)
		require.Equal(t, gcerrors.NotFound, gcerrors.Code(err), "%s: %v", key, err)
	}
	_, err := b.Attributes(t.Context(), "a")
	require.Equal(t, gcerrors.NotFound, gcerrors.Code(err))
	_, err = b.NewReader(t.Context(), "a", nil)
	require.ErrorIs(t, err, rootblob.ErrNotRegular)
}

func TestNoKeyLeadsOut(t *testing.T) {
	base := t.TempDir()
	write(t, base, "secret", "secret")
	write(t, base, "in/file", "fine")
	require.NoError(t, os.Symlink(filepath.Join(base, "secret"), filepath.Join(base, "in/link")))
	b := open(t, filepath.Join(base, "in"))
	for _, key := range []string{"../secret", "x/../../secret", "%2E%2E/secret", "link", "..%2Fsecret"} {
		_, err := b.NewReader(t.Context(), key, nil)
		require.Error(t, err, key)
		_, err = b.Attributes(t.Context(), key)
		require.Error(t, err, key)
	}
}

func TestWritesAreRefused(t *testing.T) {
	b, want := tree(t)
	require.Equal(t, gcerrors.Unimplemented, gcerrors.Code(b.WriteAll(t.Context(), "new", []byte("x"), nil)))
	require.ErrorIs(t, b.Delete(t.Context(), "b"), rootblob.ErrReadOnly)
	require.ErrorIs(t, b.Copy(t.Context(), "new", "b", nil), rootblob.ErrReadOnly)
	_, err := b.SignedURL(t.Context(), "b", nil)
	require.Equal(t, gcerrors.Unimplemented, gcerrors.Code(err))
	require.Equal(t, want, list(t, b, 100, nil))
}

func TestFoldersThatVanishDuringAListingAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		write(t, dir, fmt.Sprintf("d%d/f", i), "x")
	}
	b := open(t, dir)
	page, next, err := b.ListPage(t.Context(), blob.FirstPageToken, 1, nil)
	require.NoError(t, err)
	require.Equal(t, "d0/f", page[0].Key)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "d2")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "d4")))
	page, _, err = b.ListPage(t.Context(), next, 10, nil)
	require.NoError(t, err)
	require.Len(t, page, 2)
}

func TestAnEndedContextEndsAListing(t *testing.T) {
	b, _ := tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := b.ListPage(ctx, blob.FirstPageToken, 10, nil)
	require.True(t, errors.Is(err, context.Canceled) || gcerrors.Code(err) == gcerrors.Canceled)
}

func TestListingLeavesNoFilesOpen(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Log("no /proc to count open files in")
		return
	}
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := count()
	dir := t.TempDir()
	for _, n := range names {
		write(t, dir, n, "x")
	}
	for range 20 {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		b := rootblob.Open(root, nil)
		_, _, err = b.ListPage(t.Context(), blob.FirstPageToken, 3, nil)
		require.NoError(t, err)
		list(t, b, 2, nil)
		require.NoError(t, b.Close())
	}
	require.InDelta(t, before, count(), 3)
}

func TestEscapeIsReversibleAndKeepsPathsApart(t *testing.T) {
	seen := map[string]string{}
	piece := rapid.OneOf(rapid.SampledFrom([]string{"%", "%4", "%41", "A", "\xff", "%FF", "é", "\n", "2", "/"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		path := "p" + strings.ReplaceAll(strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), ""), "\x00", "")
		key := rootblob.Escape(path)
		if strings.ToValidUTF8(key, "") != key || strings.ContainsAny(key, "\n\x7f") {
			t.Fatalf("unclean key %q", key)
		}
		got, err := rootblob.Unescape(key)
		if err != nil || got != path {
			t.Fatalf("%q -> %q -> %q, %v", path, key, got, err)
		}
		if other, ok := seen[key]; ok && other != path {
			t.Fatalf("%q and %q share %q", path, other, key)
		}
		seen[key] = path
	})
	require.NotEmpty(t, slices.Collect(maps.Keys(seen)))
}

func TestNoMoreIsHeldOfAFolderThanIsTaken(t *testing.T) {
	dir := t.TempDir()
	for i := range 3000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", i)), nil, 0o600))
	}
	list := func(ctx context.Context, l rootblob.Listing) (names []string, err error) {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		bucket := rootblob.Open(root, nil)
		defer bucket.Close()
		objects, _, err := bucket.ListPage(ctx, blob.FirstPageToken, 5000, &blob.ListOptions{BeforeList: func(as func(any) bool) error {
			var own *rootblob.Listing
			require.True(t, as(&own))
			*own = l
			return nil
		}})
		for _, o := range objects {
			names = append(names, o.Key)
		}
		return names, err
	}
	looked := 0
	_, err := list(t.Context(), rootblob.Listing{Most: 100, Takes: func(string) bool { looked++; return true }})
	require.ErrorIs(t, err, rootblob.ErrTooMany)
	require.Equal(t, 1000, looked, "the rest of the folder is not even read")
	names, err := list(t.Context(), rootblob.Listing{Most: 100, Takes: func(file string) bool { return strings.HasSuffix(file, "00.txt") }})
	require.NoError(t, err)
	require.Len(t, names, 29, "0.txt is none of them")
	_, err = list(t.Context(), rootblob.Listing{MostBytes: 32 << 10})
	require.ErrorIs(t, err, rootblob.ErrNames)
	names, err = list(t.Context(), rootblob.Listing{MostBytes: 70 << 10})
	require.NoError(t, err)
	require.Len(t, names, 3000)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1"), 0o700))
	for i := range 2000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "1", fmt.Sprintf("%d.txt", i)), nil, 0o600))
	}
	_, err = list(t.Context(), rootblob.Listing{MostBytes: 70 << 10})
	require.ErrorIs(t, err, rootblob.ErrNames, "those of both folders are held at once")
	ctx, cancel := context.WithCancel(t.Context())
	looked = 0
	_, err = list(ctx, rootblob.Listing{Takes: func(string) bool { looked++; cancel(); return true }})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1000, looked)
}
