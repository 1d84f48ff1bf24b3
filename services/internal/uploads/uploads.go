// Package uploads keeps the content of uploaded files in a bucket: a folder, or S3. Postgres says which files there are (db/migrations:
// uploaded_files); here is what is in them.
//
// An object is written once, under a key that nobody chooses, and never changed: a file that is replaced gets another object. So nobody reads
// half of one, whatever ends while it is written, and no name of a user's is part of a path.
package uploads

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
	gcaws "gocloud.dev/aws"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
)

const (
	openTimeout = 10 * time.Second
	// callTimeout bounds the removal of an object, and the wait for the beginning of one that is read.
	callTimeout = 30 * time.Second
	// partBytes is what is held of an upload to S3: the least that S3 takes as a part.
	partBytes = 5 << 20
)

// Bucket is where objects are.
type Bucket struct {
	bucket *blob.Bucket
	// folder is the same as a folder; nil = it is none.
	folder *os.Root
}

// dirOf has nothing but an object, and what a process that was killed has left of its writing.
func dirOf(object uuid.UUID) string {
	return path.Join("uploads", object.String()[:2], object.String())
}

func keyOf(object uuid.UUID) string { return path.Join(dirOf(object), "content") }

// Open opens where the settings say. It asks no server. A folder is made.
func Open(ctx context.Context, cfg config.Uploads) (*Bucket, error) {
	if folder := cfg.Folder(); folder != "" {
		return openFolder(folder)
	}
	at, err := url.Parse(cfg.URL)
	if err != nil || at.Scheme != "s3" {
		return nil, errors.New("UPLOAD_URL: names no place for uploads")
	}
	query := at.Query()
	pathStyle := query.Get("use_path_style") == "true"
	query.Del("use_path_style")
	client, err := deadline.Get(ctx, "uploads.open", openTimeout, func(ctx context.Context) (*s3.Client, error) {
		asked, err := gcaws.V2ConfigFromURLParams(ctx, query)
		if err != nil {
			return nil, err
		}
		if cfg.AccessKeyID != "" {
			asked.Credentials = credentials.NewStaticCredentialsProvider(cfg.AccessKeyID, cfg.SecretAccessKey, "")
		}
		return s3.NewFromConfig(asked, func(o *s3.Options) { o.UsePathStyle = pathStyle }), nil
	})
	if err != nil {
		return nil, fmt.Errorf("UPLOAD_URL: open the bucket: %w", err)
	}
	bucket, err := s3blob.OpenBucket(ctx, client, at.Host, nil)
	if err != nil {
		return nil, fmt.Errorf("UPLOAD_URL: open the bucket: %w", err)
	}
	return &Bucket{bucket: bucket}, nil
}

func openFolder(name string) (*Bucket, error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("UPLOAD_URL: make the folder: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("UPLOAD_URL: open the folder: %w", err)
	}
	bucket, err := fileblob.OpenBucket(name, &fileblob.Options{NoTempDir: true, DirFileMode: 0o700, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("UPLOAD_URL: open the folder: %w", err), root.Close())
	}
	return &Bucket{bucket: bucket, folder: root}, nil
}

// Close closes the bucket.
func (b *Bucket) Close() error {
	err := b.bucket.Close()
	if b.folder != nil {
		err = errors.Join(err, b.folder.Close())
	}
	return err
}

// Write writes an object from its beginning to its end, as long as ctx allows. After an error there is none.
func (b *Bucket) Write(ctx context.Context, object uuid.UUID, from io.Reader) (int64, error) {
	ctx, abort := context.WithCancel(ctx)
	defer abort() // before Close, it leaves nothing
	to, err := b.bucket.NewWriter(ctx, keyOf(object), &blob.WriterOptions{BufferSize: partBytes, MaxConcurrency: 1, ContentType: "application/octet-stream"})
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, from)
	if err != nil {
		abort()
		_ = to.Close() // it says that ctx has ended
		return n, err
	}
	if err := to.Close(); err != nil {
		return n, err
	}
	if err := b.flush(object); err != nil {
		return n, errors.Join(err, b.Remove(context.WithoutCancel(ctx), object))
	}
	return n, nil
}

// flush has the machine write an object in a folder to its disk: the row that names it is there after a loss of power, and fileblob syncs nothing.
func (b *Bucket) flush(object uuid.UUID) error {
	if b.folder == nil {
		return nil
	}
	for name := keyOf(object); ; name = path.Dir(name) { // and the names that lead to it
		at, err := b.folder.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(at.Sync(), at.Close()); err != nil {
			return err
		}
		if name == "." {
			return nil
		}
	}
}

// ErrGone says that there is no such object.
var ErrGone = errors.New("the object is not in the bucket")

// ErrCut says that an object is not what was written: a machine lost its power, or somebody has changed it.
var ErrCut = errors.New("the object has not the bytes that were written")

// Read reads an object of so many bytes and a digest. Its error is ErrGone where there is none, ErrCut where it is not what was written, or another one, of the bucket.
func (b *Bucket) Read(ctx context.Context, object uuid.UUID, bytes int64, digest []byte) ([]byte, error) {
	return deadline.Get(ctx, "uploads.read", callTimeout, func(ctx context.Context) ([]byte, error) {
		from, err := b.bucket.NewReader(ctx, keyOf(object), nil)
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil, ErrGone
		}
		if err != nil {
			return nil, err
		}
		defer from.Close()
		if from.Size() != bytes {
			return nil, fmt.Errorf("%w: %d, not %d", ErrCut, from.Size(), bytes)
		}
		content := make([]byte, bytes)
		if _, err := io.ReadFull(from, content); err != nil {
			return nil, fmt.Errorf("the object has not the %d bytes that were written: %w", bytes, err)
		}
		if sum := sha256.Sum256(content); !slices.Equal(sum[:], digest) {
			return nil, fmt.Errorf("%w: their SHA-256 is %x, not %x", ErrCut, sum, digest)
		}
		return content, nil
	})
}

// Remove removes an object, and what was begun of it. That there is none is no error.
func (b *Bucket) Remove(ctx context.Context, object uuid.UUID) error {
	return deadline.Do(ctx, "uploads.remove", callTimeout, func(ctx context.Context) error {
		if b.folder != nil {
			return b.folder.RemoveAll(dirOf(object))
		}
		err := b.bucket.Delete(ctx, keyOf(object))
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil
		}
		return err
	})
}

// URL is what the configuration of a connector of type file says whose files are uploaded.
const URL = "upload:"

// Bounds of a file, as max_file_bytes of its connector's configuration.
const (
	DefaultFileBytes = 8 << 20
	MostFileBytes    = 32 << 20
)
