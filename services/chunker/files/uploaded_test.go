package files_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	settings "github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/internal/extract"
	"github.com/echomind/sync/services/internal/uploads"
)

// uploaded is a connector whose files are uploaded to an S3 server.
type uploaded struct {
	*testing.T
	*store
	bucket *uploads.Bucket
	stop   func()
	there  map[string]files.Uploaded
}

func newUploaded(t *testing.T) *uploaded {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("files"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	bucket, err := uploads.Open(t.Context(), settings.Uploads{
		URL: "s3://files?region=eu-central-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL), AccessKeyID: "key", SecretAccessKey: "secret",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return &uploaded{t, newStore(), bucket, server.Close, map[string]files.Uploaded{}}
}

func (u *uploaded) upload(name, content string) {
	u.Helper()
	object := uuid.New()
	n, err := u.bucket.Write(u.Context(), object, strings.NewReader(content))
	require.NoError(u, err)
	sum := sha256.Sum256([]byte(content))
	u.there[name] = files.Uploaded{Name: name, Object: object, Bytes: n, SHA256: sum[:]}
}

func (u *uploaded) sync(cfg files.Config) (files.Result, error) {
	u.Helper()
	page := func(_ context.Context, after string) (some []files.Uploaded, err error) {
		for name, one := range u.there {
			if name > after {
				some = append(some, one)
			}
		}
		slices.SortFunc(some, func(a, b files.Uploaded) int { return cmp.Compare(a.Name, b.Name) })
		return some[:min(len(some), 2)], nil
	}
	cfg.URL = files.UploadURL
	return files.SyncUploads(u.Context(), cfg, files.Options{Reader: extract.InProcess{}}, files.Uploads{Page: page, Bucket: u.bucket}, u.store)
}

func TestWhatIsUploadedIsReadReplacedAndDeletedFromS3(t *testing.T) {
	u := newUploaded(t)
	for i := range 5 {
		u.upload(fmt.Sprint(i, ".md"), fmt.Sprint("# Zebra ", i, "\n\nIt runs."))
	}
	u.upload("b.bin", strings.Repeat("\x00\x01", 500))
	result, err := u.sync(files.Config{})
	require.NoError(t, err)
	require.EqualValues(t, 5, result.Put)
	require.EqualValues(t, 1, result.Failed)
	result, err = u.sync(files.Config{})
	require.NoError(t, err)
	require.Zero(t, result.Put, "nothing has changed")
	u.upload("1.md", "# Quokka 1\n\nIt ran."[:len("# Zebra 1\n\nIt runs.")])
	require.Equal(t, u.there["3.md"].Bytes, u.there["1.md"].Bytes, "as long as what it replaces")
	delete(u.there, "2.md")
	result, err = u.sync(files.Config{})
	require.NoError(t, err)
	require.Equal(t, []string{"1.md"}, u.put)
	require.Equal(t, []string{"2.md"}, u.deleted)
	require.EqualValues(t, 1, result.Deleted)
	clear(u.there)
	_, err = u.sync(files.Config{})
	require.NoError(t, err, "somebody has deleted them one by one: no share that is away looks like this")
	require.Len(t, u.deleted, 5)
}

func TestAFileThatIsLostFailsAloneAndABucketThatIsAwayFailsTheSync(t *testing.T) {
	u := newUploaded(t)
	u.upload("a.md", "# Zebra")
	u.upload("b.md", "# Lion")
	_, err := u.sync(files.Config{})
	require.NoError(t, err)
	u.upload("a.md", "# Another")
	require.NoError(t, u.bucket.Remove(t.Context(), u.there["a.md"].Object))
	result, err := u.sync(files.Config{})
	require.NoError(t, err)
	require.EqualValues(t, 1, result.Failed)
	require.Empty(t, u.deleted)
	u.upload("a.md", "# Another")
	u.stop()
	_, err = u.sync(files.Config{})
	require.Error(t, err)
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.Empty(t, u.deleted)
}

func TestAFileThatIsNotWhatWasUploadedFailsAloneAndNothingOfItIsStored(t *testing.T) {
	u := newUploaded(t)
	for _, name := range []string{"a.md", "b.md", "c.md"} {
		u.upload(name, "# Zebra")
	}
	cut := u.there["a.md"]
	cut.Bytes++
	u.there["a.md"] = cut
	require.NoError(t, u.bucket.Remove(t.Context(), u.there["b.md"].Object))
	_, err := u.bucket.Write(t.Context(), u.there["b.md"].Object, strings.NewReader("# Quagg")) // as long, and something else
	require.NoError(t, err)
	result, err := u.sync(files.Config{})
	require.NoError(t, err)
	require.EqualValues(t, 2, result.Failed)
	for name, doc := range u.Docs() {
		require.Equal(t, name != "c.md", doc.Err != "", "%s: %s", name, doc.Err)
		require.Equal(t, name == "c.md", len(doc.Chunks) > 0, name)
	}
	u.upload("b.md", "# Quagg")
	_, err = u.sync(files.Config{})
	require.NoError(t, err)
	require.Empty(t, u.Docs()["b.md"].Err, "what is uploaded again is read")
	require.NotEmpty(t, u.Docs()["b.md"].Chunks)
}

func TestAnUploadedFileThatIsTooLargeIsNotRead(t *testing.T) {
	u := newUploaded(t)
	u.upload("a.md", strings.Repeat("x", 101))
	result, err := u.sync(files.Config{MaxFileBytes: 100})
	require.NoError(t, err)
	require.EqualValues(t, 1, result.Failed)
}

func TestAConfigurationOfUploadsNamesNoFolder(t *testing.T) {
	require.NoError(t, files.Config{URL: "upload:", MaxFileBytes: 1}.Validate())
	for _, bad := range []files.Config{
		{URL: "upload:", Include: []string{"*"}}, {URL: "upload:", Exclude: []string{"*"}}, {URL: "upload:", Hidden: true}, {URL: "upload:", MaxFiles: 1},
		{URL: "upload:", MaxFileBytes: 33 << 20}, {URL: "upload:/etc"}, {URL: "upload:etc"}, {URL: "upload://etc"}, {URL: "UPLOAD:"}, {URL: "upload:?x"},
	} {
		require.Error(t, bad.Validate(), "%+v", bad)
	}
}
