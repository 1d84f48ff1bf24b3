package uploads_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/internal/uploads"
)

// place is where objects may be kept, and says how many there are, whole ones and others.
type place struct {
	*uploads.Bucket
	objects func() int
}

func places(t *testing.T) map[string]place {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "uploads")
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	require.NoError(t, backend.CreateBucket("files"))
	return map[string]place{
		"a folder": {open(t, config.Uploads{URL: "file://" + folder}), func() (n int) {
			require.NoError(t, filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					n++
				}
				return err
			}))
			return n
		}},
		"S3": {open(t, config.Uploads{
			URL: "s3://files?region=eu-central-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL), AccessKeyID: "key", SecretAccessKey: "secret",
		}), func() int {
			all, err := backend.ListBucket("files", nil, gofakes3.ListBucketPage{})
			require.NoError(t, err)
			return len(all.Contents)
		}},
	}
}

func open(t *testing.T, cfg config.Uploads) *uploads.Bucket {
	t.Helper()
	require.NoError(t, cfg.Validate())
	bucket, err := uploads.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return bucket
}

func TestAnObjectIsReadAsItWasWrittenUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	for name, at := range places(t) {
		for _, size := range []int{1, 5 << 20, 5<<20 + 1, 17 << 20} {
			object, content := uuid.New(), bytes.Repeat([]byte("zebra"), size/5+1)[:size]
			n, err := at.Write(t.Context(), object, bytes.NewReader(content))
			require.NoError(t, err, name)
			require.EqualValues(t, size, n)
			sum := sha256.Sum256(content)
			read, err := at.Read(t.Context(), object, n, sum[:])
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(content, read), "%s, %d bytes", name, size)
			_, err = at.Read(t.Context(), object, n+1, sum[:])
			require.ErrorIs(t, err, uploads.ErrCut, "%s: what was cut is not read as if it were whole", name)
			sum[0]++
			_, err = at.Read(t.Context(), object, n, sum[:])
			require.ErrorIs(t, err, uploads.ErrCut, "%s: what was changed is not read as if it were what was written", name)
			require.Equal(t, 1, at.objects(), name)
			for range 2 {
				require.NoError(t, at.Remove(t.Context(), object), name)
			}
			_, err = at.Read(t.Context(), object, n, nil)
			require.ErrorIs(t, err, uploads.ErrGone, name)
			require.Zero(t, at.objects(), name)
		}
	}
}

// cut is a body that ends before its end.
type cut struct {
	io.Reader
	err error
}

func (c cut) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	if errors.Is(err, io.EOF) {
		err = c.err
	}
	return n, err
}

func TestWhatIsCutLeavesNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("the line is cut")
	for name, at := range places(t) {
		for _, size := range []int{0, 1, 6 << 20, 11 << 20} {
			object := uuid.New()
			_, err := at.Write(t.Context(), object, cut{strings.NewReader(strings.Repeat("x", size)), broken})
			require.ErrorIs(t, err, broken, name)
			_, err = at.Read(t.Context(), object, 1, nil)
			require.ErrorIs(t, err, uploads.ErrGone, name)
			require.Zero(t, at.objects(), "%s, %d bytes", name, size)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := at.Write(ctx, uuid.New(), cut{strings.NewReader("x"), func() error { cancel(); return io.EOF }()})
		require.Error(t, err, name)
		require.Zero(t, at.objects(), name)
	}
}

func TestWhatAKilledProcessHasLeftGoesWithItsObject(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	bucket, object := open(t, config.Uploads{URL: "file://" + folder}), uuid.New()
	_, err := bucket.Write(t.Context(), object, strings.NewReader("x"))
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(folder, "uploads", "*", object.String()))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.WriteFile(filepath.Join(found[0], "content.1.tmp"), []byte("half"), 0o600))
	require.NoError(t, bucket.Remove(t.Context(), object))
	require.NoDirExists(t, found[0])
}

func TestABucketThatDoesNotAnswerIsNoFileThatIsGone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	at := "s3://files?region=eu-central-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL)
	bucket := open(t, config.Uploads{URL: at, AccessKeyID: "key", SecretAccessKey: "secret"})
	server.Close()
	_, err := bucket.Read(t.Context(), uuid.New(), 1, nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, uploads.ErrGone)
	require.Error(t, bucket.Remove(t.Context(), uuid.New()))
	_, err = bucket.Write(t.Context(), uuid.New(), strings.NewReader("x"))
	require.Error(t, err)
	_, err = uploads.Open(t.Context(), config.Uploads{URL: fmt.Sprint("file://", filepath.Join("/dev/null", "x"))})
	require.ErrorContains(t, err, "UPLOAD_URL")
}
