package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/internal/uploads"
)

const formData = "multipart/form-data"

func (a *API) uploadRoutes() {
	const files = "/connectors/{id}/files"
	register(a, identity.ListFiles, http.MethodGet, files, "List the files that were uploaded to a connector, by name", http.StatusOK, a.listFiles)
	register(a, identity.UploadFiles, http.MethodPost, files, "Upload files to a connector, in place of those of the same names, and sync it", http.StatusAccepted, a.uploadFiles, func(o *huma.Operation) {
		o.Description += " Up to 100 files in one request: all of them are taken, or none."
		o.Errors = append(o.Errors, http.StatusRequestTimeout, http.StatusNotImplemented)
	})
	register(a, identity.GetFile, http.MethodGet, files+"/{name}", "Show a file that was uploaded to a connector", http.StatusOK, a.getFile)
	register(a, identity.PutFile, http.MethodPut, files+"/{name}", "Upload one file to a connector by its name, or replace it, and sync the connector", http.StatusOK, a.putFile, func(o *huma.Operation) {
		o.Description += " The body is the content of the file."
		o.Errors = append(o.Errors, http.StatusRequestTimeout, http.StatusNotImplemented)
	})
	a.mayBeNew(files + "/{name}")
	register(a, identity.DeleteFile, http.MethodDelete, files+"/{name}", "Delete a file that was uploaded to a connector, and sync it", http.StatusAccepted, a.deleteFile)
	// Said afterwards: huma reads into memory what it knows to be a body.
	a.huma.OpenAPI().Paths[base+files].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{formData: {Schema: &huma.Schema{
		Type: huma.TypeObject, Required: []string{"file"}, Properties: map[string]*huma.Schema{"file": {
			Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Description: "The files, each a part with a filename.",
		}},
	}}}}
	a.huma.OpenAPI().Paths[base+files+"/{name}"].Put.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
}

// File is an uploaded file.
type File struct {
	Name       string    `json:"name"`
	Bytes      int64     `json:"bytes"`
	SHA256     string    `json:"sha256" doc:"Of its content, in hexadecimal."`
	UploadedAt time.Time `json:"uploaded_at"`
	UploadedBy string    `json:"uploaded_by"`
	Document   string    `json:"document" enum:"waiting,stored,failed" doc:"What has come of this version of it: stored is found by a search, failed says why in error, waiting is for a sync."`
	Error      *string   `json:"error"`
}

// FileList is how files are asked for.
type FileList struct {
	ByID
	LongPaging
}

// FilePage is one page of files.
type FilePage struct {
	Body struct {
		Files         []File  `json:"files"`
		NextPageToken *string `json:"next_page_token" doc:"Null where there are no more."`
	}
}

func (a *API) listFiles(ctx context.Context, in *FileList) (*FilePage, error) {
	p := dbgen.ListUploadsParams{ConnectorID: in.number(), Page: in.most() + 1}
	next, err := a.place(ctx, in.PageToken, []any{"files", in.number()}, &p.After)
	if err != nil {
		return nil, err
	}
	var found []dbgen.ListUploadsRow
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if err := isSeen(ctx, q, in.number()); err != nil {
			return err
		}
		found, err = q.ListUploads(ctx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &FilePage{}
	if len(found) > int(in.most()) {
		found = found[:in.most()]
		out.Body.NextPageToken = next(found[len(found)-1].Name)
	}
	out.Body.Files = make([]File, len(found))
	for i, f := range found {
		out.Body.Files[i] = viewFile(f)
	}
	return out, nil
}

func viewFile(f dbgen.ListUploadsRow) File {
	return File{f.Name, f.Bytes, f.Sha256, f.UploadedAt.UTC(), f.UploadedBy, f.Document, shownText(f.Error)}
}

// ByFile names an uploaded file.
type ByFile struct {
	ByID
	Name string `path:"name" maxLength:"1000"`
}

// FileVersion names a file, and which version of it is changed.
type FileVersion struct {
	ByFile
	Matching
}

// FileDeleted says when the connector was asked to sync without the file.
type FileDeleted struct {
	Body struct {
		ConnectorID        int32      `json:"connector_id"`
		TriggerRequestedAt *time.Time `json:"trigger_requested_at" doc:"Null where the connector is disabled, or takes no uploads any more."`
	}
}

// deleteFile deletes also what a connector has kept of when it took uploads: it counts for its owner.
func (a *API) deleteFile(ctx context.Context, in *FileVersion) (*FileDeleted, error) {
	out := &FileDeleted{}
	out.Body.ConnectorID = in.number()
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		c, err := locked(ctx, q, in.number())
		if err != nil {
			return err
		}
		name, wrong := fileName(in.Name)
		if wrong != "" { // none is called so
			return noFile(in.Name)
		}
		stands, err := optional(q.GetUpload(ctx, dbgen.GetUploadParams{ConnectorID: in.number(), Name: name}))
		if err == nil && stands == nil {
			err = noFile(name)
		}
		if err == nil {
			err = in.matches(fileTag(*stands))
		}
		if err != nil {
			return err
		}
		deleted, err := q.DeleteUpload(ctx, dbgen.DeleteUploadParams{ConnectorID: in.number(), Name: name})
		if err == nil && !deleted {
			err = noFile(name)
		}
		if err != nil {
			return err
		}
		out.Body.TriggerRequestedAt = nil
		if _, refused := uploadsOf(c); refused == nil {
			asked, err := q.Sync(ctx, dbgen.SyncParams{ID: in.number()})
			out.Body.TriggerRequestedAt = &asked
			return err
		}
		return nil
	})
	return out, err
}

func noFile(name string) error { return problem.NotFound(fmt.Sprintf("file %.300q", name)) }

// uploadConfig is what the API reads of the configuration of a connector whose files are uploaded.
type uploadConfig struct {
	URL          string
	MaxFileBytes int64
}

// most is the size of a file that a sync reads.
func (c uploadConfig) most() int64 {
	if c.MaxFileBytes <= 0 {
		return uploads.DefaultFileBytes
	}
	return min(c.MaxFileBytes, uploads.MostFileBytes)
}

// takesUploads locks a connector whose files its viewer may change.
func takesUploads(ctx context.Context, q *dbgen.Queries, id int32) (cfg uploadConfig, err error) {
	found, err := locked(ctx, q, id)
	if err != nil {
		return cfg, err
	}
	return uploadsOf(found)
}

// uploadsOf is how a connector takes uploads, or why it does not.
func uploadsOf(c dbgen.ApiChangeable) (cfg uploadConfig, err error) {
	var fields map[string]json.RawMessage // by their names as they are written: encoding/json takes URL for url
	if json.Unmarshal(c.Config, &fields) == nil {
		err = errors.Join(unmarshalled(fields["url"], &cfg.URL), unmarshalled(fields["max_file_bytes"], &cfg.MaxFileBytes))
	}
	if c.Type != "file" || err != nil || cfg.URL != uploads.URL {
		return cfg, problem.Conflict(fmt.Sprintf("Connector %d takes no uploads.", c.ID), `Add one of type file with the config {"url": "upload:"}.`)
	}
	if c.Status == "DISABLED" {
		return cfg, problem.Conflict("The connector is disabled.", "Enable it first.")
	}
	return cfg, nil
}

// unmarshalled reads a field, if it is there.
func unmarshalled(text json.RawMessage, into any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
