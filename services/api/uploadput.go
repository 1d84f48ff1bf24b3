package api

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// OneFile is an uploaded file with its version.
type OneFile struct {
	ETag string `header:"ETag" doc:"Its sha256, in quotes: If-Match of a change."`
	Body File
}

// fileTag is the ETag of a file: its content is what somebody has written of it.
func fileTag(f dbgen.GetUploadRow) string { return `"` + f.Sha256 + `"` }

func (a *API) getFile(ctx context.Context, in *ByFile) (*OneFile, error) {
	var found *dbgen.GetUploadRow
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		if err := isSeen(ctx, q, in.number()); err != nil {
			return err
		}
		name, _ := fileName(in.Name) // no file has a wrong name
		found, err = optional(q.GetUpload(ctx, dbgen.GetUploadParams{ConnectorID: in.number(), Name: name}))
		if err == nil && found == nil {
			err = noFile(in.Name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &OneFile{fileTag(*found), viewFile(dbgen.ListUploadsRow(*found))}, nil
}

// PutFile is a request with the content of one file. Its body is read while it comes.
type PutFile struct {
	ByFile
	Putting
	request *http.Request
}

// Resolve is part of huma.Resolver.
func (p *PutFile) Resolve(ctx huma.Context) []error {
	p.request, _ = humago.Unwrap(ctx)
	return nil
}

// FileKept is a file that was taken, and when the connector was asked to sync.
type FileKept struct {
	Status int
	ETag   string `header:"ETag" doc:"Its sha256, in quotes: If-Match of a change."`
	Body   struct {
		ConnectorID        int32     `json:"connector_id"`
		TriggerRequestedAt time.Time `json:"trigger_requested_at"`
		File
	}
}

// putFile takes one file by its name. It replaces the version that the request names.
func (a *API) putFile(ctx context.Context, in *PutFile) (*FileKept, error) {
	if a.bucket == nil {
		return nil, problem.NoUploads()
	}
	if kind, _, _ := mime.ParseMediaType(in.request.Header.Get("Content-Type")); strings.HasPrefix(kind, "multipart/") {
		return nil, problem.IsForm()
	}
	if in.request.Header.Get("Content-Range") != "" { // as RFC 9110 has it: what is behind an offset is no file
		return nil, problem.PartOfFile()
	}
	name, wrong := fileName(in.Name)
	if wrong != "" {
		return nil, problem.Invalid("path.name", "the file's name "+wrong)
	}
	var isNew bool
	u := &upload{api: a, connector: in.number(), allows: func(stands *dbgen.GetUploadRow) error {
		if isNew = stands == nil; isNew {
			return in.puts(nil)
		}
		return in.puts(new(fileTag(*stands)))
	}}
	return uploaded(ctx, u, in.request, func(ctx context.Context, body io.Reader) (*FileKept, error) {
		if err := u.begin(ctx); err != nil {
			return nil, err
		}
		if most := u.cfg.most(); in.request.ContentLength > most {
			return nil, problem.TooLarge(fmt.Sprintf("The file has %d bytes, and may have %d.", in.request.ContentLength, most), raiseMost)
		}
		if err := u.receive(ctx, name, body); err != nil {
			return nil, err
		}
		out := &FileKept{}
		err := u.keep(ctx, func(ctx context.Context, q *dbgen.Queries, triggered time.Time) error {
			kept, err := q.GetUpload(ctx, dbgen.GetUploadParams{ConnectorID: u.connector, Name: name})
			out.Status, out.ETag = putStatus(isNew), fileTag(kept)
			out.Body.ConnectorID, out.Body.TriggerRequestedAt, out.Body.File = u.connector, triggered, viewFile(dbgen.ListUploadsRow(kept))
			return err
		})
		return out, err
	})
}
