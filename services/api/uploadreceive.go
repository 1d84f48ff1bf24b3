package api

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// raiseMost is what to do with a file that is too large.
	raiseMost = "Send a smaller one, or raise max_file_bytes of the connector's config (up to 33554432)."
	// readPatience is how long a client may send nothing.
	readPatience = 20 * time.Second
	// abandonTimeout bounds the removal of what was written of an upload that fails.
	abandonTimeout = 30 * time.Second
	// keepFor is how long an object that was begun stays, beyond the time of its upload, before it is removed as abandoned.
	keepFor = time.Hour
)

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
	// allows says of the file that one takes the place of, nil where there is none, whether it may; nil = it always may. It is asked before the content comes, and when it is kept.
	allows func(stands *dbgen.GetUploadRow) error
}

// received is a file whose content is written.
type received struct {
	FileTaken
	object uuid.UUID
	sum    []byte
}

// uploaded has do read the body of a request as long as an upload may take. Each file of it is written as an object that nothing names, and then they become files of the connector,
// with the request to sync it, in one transaction. So an upload that ends before it leaves nothing that is read, and one that ends behind it is synced.
func uploaded[T any](ctx context.Context, u *upload, r *http.Request, do func(context.Context, io.Reader) (*T, error)) (*T, error) {
	a := u.api
	leave, err := a.uploading.begin(ctx, requestOf(ctx).UserID)
	if err != nil {
		return nil, err
	}
	defer leave()
	lasting, _ := ctx.Value(lastingKey).(context.Context)
	lasting = context.WithValue(lasting, requestKey, requestOf(ctx))
	lastingAnswer, _ := ctx.Value(answerKey).(*answer)
	within := a.config.uploadTimeout()
	out, err := deadline.Get(lasting, "api.upload", within, func(ctx context.Context) (*T, error) {
		lastingAnswer.lasts(within)
		out, err := do(ctx, &patient{from: r.Body, of: lastingAnswer})
		if err != nil {
			u.abandon(ctx)
		}
		return out, err
	})
	return out, slow(err, within)
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
	err = u.api.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := u.stands(ctx, q, name)
		if stands != nil {
			bytes = stands.Bytes
		}
		return err
	})
	return bytes, err
}

// stands is the file of a name, nil where there is none, if one may take its place.
func (u *upload) stands(ctx context.Context, q *dbgen.Queries, name string) (*dbgen.GetUploadRow, error) {
	stands, err := optional(q.GetUpload(ctx, dbgen.GetUploadParams{ConnectorID: u.connector, Name: name}))
	if err == nil && u.allows != nil {
		err = u.allows(stands)
	}
	return stands, err
}

func (u *upload) notFound() error { return problem.NotFound(fmt.Sprintf("connector %d", u.connector)) }

// receive writes the content of a file.
func (u *upload) receive(ctx context.Context, name string, body io.Reader) error {
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
	buffered := bufio.NewReaderSize(body, sniffBytes)
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

// keep makes what was written files of the connector, has it synced, and shows that.
func (u *upload) keep(ctx context.Context, show func(ctx context.Context, q *dbgen.Queries, triggered time.Time) error) error {
	c := u.api.config
	return u.api.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if _, err := takesUploads(ctx, q, u.connector); err != nil { // it locks the connector: nobody else keeps a file of it meanwhile
			return err
		}
		for _, r := range u.taken {
			if u.allows != nil {
				if _, err := u.stands(ctx, q, r.Name); err != nil {
					return err
				}
			}
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
		triggered, err := q.Sync(ctx, dbgen.SyncParams{ID: u.connector})
		if err != nil {
			return err
		}
		return show(ctx, q, triggered)
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

// cutShort is the answer to a body that ends before its end, or is no form.
func cutShort(err error) error {
	var p *problem.Problem
	if errors.As(err, &p) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return problem.Broken("The body is not what it says, or ends before its end: " + errText(err))
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
		err = problem.TooLarge(fmt.Sprintf("The file has more than %d bytes.", c.most), raiseMost)
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
