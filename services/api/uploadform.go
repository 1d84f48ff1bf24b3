package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// maxFilesAtOnce is how many files one request uploads.
	maxFilesAtOnce = 100
	// formBytes is what a request may have around its files.
	formBytes = 1 << 20
	// headBytes is how much the headers of a part have at most. mime/multipart holds 10 MB of them for each request.
	headBytes = 16 << 10
	// headRead is what may be read for the headers of a part: they, a boundary, and what is read ahead of them.
	headRead = headBytes + 8<<10
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

// uploadFiles takes the files of a form.
func (a *API) uploadFiles(ctx context.Context, in *UploadFiles) (*FilesTaken, error) {
	if a.bucket == nil {
		return nil, problem.NoUploads()
	}
	kind, said, err := mime.ParseMediaType(in.request.Header.Get("Content-Type"))
	if err != nil || kind != formData || said["boundary"] == "" {
		return nil, problem.NotForm()
	}
	u := &upload{api: a, connector: in.number()}
	return uploaded(ctx, u, in.request, func(ctx context.Context, body io.Reader) (*FilesTaken, error) {
		return u.take(ctx, in.request.ContentLength, newParts(body, said["boundary"]))
	})
}

// take takes the files of a form of a length, all or none.
func (u *upload) take(ctx context.Context, length int64, form *parts) (*FilesTaken, error) {
	if err := u.begin(ctx); err != nil {
		return nil, err
	}
	// What it replaces is known once its names are.
	if most := min(u.api.config.uploadMost(), u.api.config.uploadOwnerMost(), maxFilesAtOnce*u.cfg.most()) + formBytes; length > most {
		return nil, problem.TooLarge(fmt.Sprintf("The request has %d bytes, and may have %d.", length, most), "Send smaller files, fewer at once, or delete some that are not needed.")
	}
	for {
		part, isEnd, err := form.next()
		if isEnd && len(u.taken) > 0 {
			return u.keepAll(ctx)
		}
		if err != nil {
			return nil, cutShort(err)
		}
		if len(u.taken) == maxFilesAtOnce {
			return nil, problem.TooLarge(fmt.Sprintf("The request has more than %d files.", maxFilesAtOnce), "Send the rest in another request.")
		}
		name, err := partName(part)
		if err != nil {
			return nil, err
		}
		if err := u.receive(ctx, name, part); err != nil {
			return nil, err
		}
	}
}

func (u *upload) keepAll(ctx context.Context) (*FilesTaken, error) {
	out := &FilesTaken{}
	out.Body.ConnectorID = u.connector
	slices.SortFunc(u.taken, func(a, b received) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range u.taken {
		out.Body.Files = append(out.Body.Files, r.FileTaken)
	}
	return out, u.keep(ctx, func(_ context.Context, _ *dbgen.Queries, triggered time.Time) error {
		out.Body.TriggerRequestedAt = triggered
		return nil
	})
}

// parts are those of a form. Of the headers of each no more is read than they may have.
type parts struct {
	form *multipart.Reader
	from io.Reader
	// left is what may still be read, while headers are.
	left    int
	isAhead bool
}

func newParts(body io.Reader, boundary string) *parts {
	p := &parts{from: body}
	p.form = multipart.NewReader(headReader{p}, boundary)
	return p
}

// next is the next part, or io.EOF. isEnd says that the form has come to its end: a body that is cut has an io.EOF in its error, too.
func (p *parts) next() (_ *multipart.Part, isEnd bool, _ error) {
	p.left, p.isAhead = headRead, true
	part, err := p.form.NextRawPart()
	p.isAhead = false
	if err == io.EOF {
		return nil, true, err
	}
	if err != nil {
		return nil, false, err
	}
	n := 0
	for name, values := range part.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	if n > headBytes {
		return nil, false, problem.LongHead()
	}
	switch strings.ToLower(strings.TrimSpace(part.Header.Get("Content-Transfer-Encoding"))) {
	case "", "binary", "8bit", "7bit":
	default:
		return nil, false, problem.Encoded()
	}
	return part, false, nil
}

type headReader struct{ *parts }

// Read is part of io.Reader.
func (r headReader) Read(into []byte) (int, error) {
	if !r.isAhead {
		return r.from.Read(into)
	}
	if r.left == 0 {
		return 0, problem.LongHead()
	}
	n, err := r.from.Read(into[:min(len(into), r.left)])
	r.left -= n
	return n, err
}
