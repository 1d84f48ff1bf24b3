package api

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// maxFilesAtOnce is how many files one request uploads.
	maxFilesAtOnce = 100
	// formBytes is what a request may have around its files.
	formBytes = 1 << 20
	// readPatience is how long a client may send nothing.
	readPatience = 20 * time.Second
	// abandonTimeout bounds the removal of what was written of an upload that fails.
	abandonTimeout = 30 * time.Second
	// keepFor is how long an object that was begun stays, beyond the time of its upload, before it is removed as abandoned.
	keepFor = time.Hour
)

// UploadFiles is a request with files. Its body is read while it comes.
type UploadFiles struct {
	ByID
	request *http.Request
}

// Resolve is part of huma.Resolver.
func (u *UploadFiles) Resolve(ctx huma.Context) []error {
	u.request, _ = humago.Unwrap(ctx)
	return nil
}

// FilesTaken are files that were taken.
type FilesTaken struct {
	Body struct {
		ConnectorID        int32       `json:"connector_id"`
		TriggerRequestedAt time.Time   `json:"trigger_requested_at"`
		Files              []FileTaken `json:"files"`
	}
}

// FileTaken is one of them.
type FileTaken struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// upload is one request that uploads.
type upload struct {
	api       *API
	connector int32
	cfg       uploadConfig
	// room is how many bytes the connector, and its owner, still have.
	room  int64
	next  uuid.UUID // an object that is begun
	taken []received
}

// received is a file whose content is written.
type received struct {
	FileTaken
	object uuid.UUID
	sum    []byte
}

// uploadFiles writes each file as an object that nothing names, and then makes all of them files of the connector, with the request to sync it, in one transaction. So an upload
// that ends before it leaves nothing that is read, and one that ends behind it is synced.
func (a *API) uploadFiles(ctx context.Context, in *UploadFiles) (*FilesTaken, error) {
	if a.bucket == nil {
		return nil, problem.NoUploads()
	}
	body, err := in.files()
	if err != nil {
		return nil, err
	}
	leave, err := a.uploading.begin(ctx, requestOf(ctx).UserID)
	if err != nil {
		return nil, err
	}
	defer leave()
	lasting, _ := ctx.Value(lastingKey).(context.Context)
	lasting = context.WithValue(lasting, requestKey, requestOf(ctx))
	lastingAnswer, _ := ctx.Value(answerKey).(*answer)
	u := &upload{api: a, connector: in.number()}
	within := a.config.uploadTimeout()
	out, err := deadline.Get(lasting, "api.upload", within, func(ctx context.Context) (*FilesTaken, error) {
		lastingAnswer.lasts(within)
		out, err := u.take(ctx, in, body(lastingAnswer))
		if err != nil {
			u.abandon(ctx)
		}
		return out, err
	})
	return out, slow(err, within)
}

// files is the reader of a request's files.
func (u *UploadFiles) files() (func(*answer) *multipart.Reader, error) {
	kind, said, err := mime.ParseMediaType(u.request.Header.Get("Content-Type"))
	if err != nil || kind != formData || said["boundary"] == "" {
		return nil, problem.NotForm()
	}
	return func(of *answer) *multipart.Reader {
		return multipart.NewReader(&patient{from: u.request.Body, of: of}, said["boundary"])
	}, nil
}

// take takes the files of a request, all or none.
func (u *upload) take(ctx context.Context, in *UploadFiles, form *multipart.Reader) (*FilesTaken, error) {
	if err := u.begin(ctx); err != nil {
		return nil, err
	}
	// What it replaces is known once its names are.
	if most := min(u.api.config.uploadMost(), u.api.config.uploadOwnerMost(), maxFilesAtOnce*u.cfg.most()) + formBytes; in.request.ContentLength > most {
		return nil, problem.TooLarge(fmt.Sprintf("The request has %d bytes, and may have %d.", in.request.ContentLength, most), "Send smaller files, fewer at once, or delete some that are not needed.")
	}
	for {
		part, err := form.NextRawPart()
		if err == io.EOF && len(u.taken) > 0 { // a body that ends before its end wraps it
			return u.keep(ctx)
		}
		if err != nil {
			return nil, cutShort(err)
		}
		if len(u.taken) == maxFilesAtOnce {
			return nil, problem.TooLarge(fmt.Sprintf("The request has more than %d files.", maxFilesAtOnce), "Send the rest in another request.")
		}
		if err := u.receive(ctx, part); err != nil {
			return nil, err
		}
	}
}

// begin looks whether the connector takes files, and begins an object.
func (u *upload) begin(ctx context.Context) error {
	return u.api.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		if u.cfg, err = takesUploads(ctx, q, u.connector); err != nil {
			return err
		}
		c := u.api.config
		begun, err := q.BeginUpload(ctx, dbgen.BeginUploadParams{ConnectorID: u.connector, Within: c.uploadTimeout() + keepFor})
		if errors.Is(err, pgx.ErrNoRows) {
			return u.notFound()
		}
		u.next, u.room = begun.Object, max(0, min(c.uploadMost()-begun.Bytes, c.uploadOwnerMost()-begun.OwnerBytes))
		return err
	})
}

// replaces is how large the file is that one of this name takes the place of.
func (u *upload) replaces(ctx context.Context, name string) (bytes int64, err error) {
	err = u.api.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		bytes, err = q.UploadBytes(ctx, dbgen.UploadBytesParams{ConnectorID: u.connector, Name: name})
		return err
	})
	return bytes, err
}

func (u *upload) notFound() error { return problem.NotFound(fmt.Sprintf("connector %d", u.connector)) }

// receive writes the content of a file.
func (u *upload) receive(ctx context.Context, part *multipart.Part) error {
	name, err := partName(part)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(u.taken, func(r received) bool { return r.Name == name }) {
		return problem.Invalid("body.file", fmt.Sprintf("two files of this request are called %q", name))
	}
	if len(u.taken) > 0 {
		if err := u.begin(ctx); err != nil {
			return err
		}
		for _, r := range u.taken {
			u.room = max(0, u.room-r.Bytes)
		}
	}
	replaced, err := u.replaces(ctx, name)
	if err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(part, sniffBytes)
	head, err := buffered.Peek(sniffBytes)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return cutShort(err)
	case len(head) == 0:
		return problem.Invalid("body.file", fmt.Sprintf("%q is empty; choose a file with content", name))
	}
	if kind := foreign(head); kind != "" {
		return problem.Unread(name, kind)
	}
	from := &content{from: buffered, hash: sha256.New(), most: u.cfg.most(), room: u.room + replaced}
	object := u.next
	u.taken = append(u.taken, received{object: object}) // what is written of it is removed, too
	n, err := u.api.bucket.Write(ctx, object, from)
	if from.err != nil {
		return cutShort(from.err)
	}
	if err != nil {
		return problem.BucketAway(err)
	}
	sum := from.hash.Sum(nil)
	u.taken[len(u.taken)-1] = received{FileTaken{name, n, hex.EncodeToString(sum)}, object, sum}
	return nil
}

// keep makes what was written files of the connector, and has it synced.
func (u *upload) keep(ctx context.Context) (*FilesTaken, error) {
	out := &FilesTaken{}
	out.Body.ConnectorID = u.connector
	slices.SortFunc(u.taken, func(a, b received) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range u.taken {
		out.Body.Files = append(out.Body.Files, r.FileTaken)
	}
	c := u.api.config
	return out, u.api.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if _, err := takesUploads(ctx, q, u.connector); err != nil {
			return err
		}
		for _, r := range u.taken {
			kept, err := q.KeepUpload(ctx, dbgen.KeepUploadParams{
				ConnectorID: u.connector, Object: r.object, Name: r.Name, Bytes: r.Bytes, Sha256: r.sum,
				MostFiles: int32(c.UploadMaxFiles), MostBytes: c.uploadMost(), MostOwnerBytes: c.uploadOwnerMost(),
			})
			if err == nil && !kept {
				err = u.notFound()
			}
			if err != nil {
				return err
			}
		}
		var err error
		out.Body.TriggerRequestedAt, err = q.Sync(ctx, dbgen.SyncParams{ID: u.connector})
		return err
	})
}

// abandon removes what was written at once: an hour's worth of uploads that fail would fill the disk.
func (u *upload) abandon(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	objects := make([]uuid.UUID, 0, len(u.taken)+1)
	for _, r := range u.taken {
		objects = append(objects, r.object)
	}
	err := deadline.Do(ctx, "api.abandon", abandonTimeout, func(ctx context.Context) error { return u.api.removeAbandoned(ctx, objects) })
	if err != nil {
		u.api.log.Warn("what was written of an upload that failed is removed later", "connector", u.connector, "err", err)
	}
}

// slow is the answer to an upload that is out of time.
func slow(err error, within time.Duration) error {
	var late *deadline.Error
	if errors.As(err, &late) && late.Name == "api.upload" || errors.Is(err, os.ErrDeadlineExceeded) {
		return problem.TooSlow(fmt.Sprintf("The upload sent nothing for %s, or took longer than %s.", readPatience, within), err)
	}
	return err
}

// cutShort is the answer to a body that ends, or is no form.
func cutShort(err error) error {
	var p *problem.Problem
	if errors.As(err, &p) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return problem.Broken("The body is no form with files, or ends before its end: " + errText(err))
}

func errText(err error) string {
	if errors.Is(err, io.EOF) {
		return "there is no file in it, or no end."
	}
	return fmt.Sprintf("%.200s.", err.Error())
}

// content is a file's while it comes: bounded, and hashed.
type content struct {
	from       io.Reader
	hash       hash.Hash
	n          int64
	most, room int64
	err        error // of the client, not of the bucket
}

// Read is part of io.Reader.
func (c *content) Read(into []byte) (int, error) {
	n, err := c.from.Read(into)
	c.n += int64(n)
	switch {
	case c.n > c.most:
		err = problem.TooLarge(fmt.Sprintf("The file has more than %d bytes.", c.most), "Send a smaller one, or raise max_file_bytes of the connector's config (up to 33554432).")
	case c.n > c.room:
		err = problem.TooLarge(fmt.Sprintf("The connector, or its owner, has room for %d bytes more.", c.room), "Delete files that are not needed, or have the operator raise API_UPLOAD_MAX_MB or API_UPLOAD_OWNER_MAX_MB.")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
		return 0, err
	}
	_, _ = c.hash.Write(into[:n])
	return n, err
}

// patient is a body whose client may be slow, and may not stop.
type patient struct {
	from io.Reader
	of   *answer
	at   time.Time
}

// Read is part of io.Reader.
func (p *patient) Read(into []byte) (int, error) {
	if now := time.Now(); p.of != nil && now.Sub(p.at) > time.Second {
		p.at = now
		_ = http.NewResponseController(p.of).SetReadDeadline(now.Add(deadline.Of(readPatience))) // a test's writer has none
	}
	return p.from.Read(into)
}
