package files

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/internal/extract"
	"github.com/echomind/sync/services/internal/uploads"
)

// Uploaded is a file that somebody has uploaded.
type Uploaded struct {
	Name   string
	Object uuid.UUID // another one for each version of the file
	Bytes  int64
	// SHA256 is of its content, as it was uploaded.
	SHA256 []byte
}

// Uploads are the uploaded files of one connector.
type Uploads struct {
	// Page lists the files behind a name, by name; none where there are no more.
	Page func(ctx context.Context, after string) ([]Uploaded, error)
	// Bucket has their content.
	Bucket *uploads.Bucket
}

// ErrNoUploads says that this service is told of no place for uploads.
var ErrNoUploads = errors.New("url: uploaded files are kept nowhere; have UPLOAD_URL set where the chunker and the API run, and sync again")

// SyncUploads updates store to the files that were uploaded. It is Sync for them, but for what is guessed of a folder: the list is Postgres's, so that
// what is not in it was deleted by somebody, however much that is.
func SyncUploads(ctx context.Context, cfg Config, opts Options, from Uploads, store source.Store) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, worker.Permanent(err)
	}
	if opts.Reader == nil {
		return Result{}, errors.New("files.Options: Reader is missing")
	}
	opts = opts.withDefaults()
	result, err := source.Run(ctx, deletes{store}, &uploaded{cfg: cfg, opts: opts, from: from}, source.Options{
		Connector: opts.Connector, Chunk: opts.Chunk, Workers: opts.Workers, InFlightBytes: opts.InFlightBytes, Room: opts.Room,
		Reading: opts.Reader.Version(), Unresumed: true,
	})
	return Result{Result: result, Whole: err == nil}, err
}

// deletes is a store in which many documents may be deleted at once.
type deletes struct{ source.Store }

// DeletionsAllowed is part of source.Store.
func (deletes) DeletionsAllowed(ctx context.Context) (bool, error) { return true, ctx.Err() }

// uploaded is the source.Source.
type uploaded struct {
	cfg  Config
	opts Options
	from Uploads
}

// List lists everything, at each sync.
func (u *uploaded) List(ctx context.Context, s *source.Sync) (any, error) {
	s.BeginListing()
	for after := ""; ; {
		page, err := u.from.Page(ctx, after)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return struct{}{}, s.EndListing(ctx, nil)
		}
		for _, one := range page {
			if err := s.Item(ctx, u.item(one)); err != nil {
				return nil, err
			}
		}
		after = page[len(page)-1].Name
	}
}

func (u *uploaded) item(one Uploaded) source.Item {
	it := source.Item{
		ID: one.Name, Title: one.Name, Version: one.Object.String(), Bytes: one.Bytes,
		Read: func(ctx context.Context) (source.Content, error) { return u.read(ctx, one) },
	}
	if one.Bytes > u.cfg.maxFileBytes() {
		it.Unread = tooLarge(one.Bytes, u.cfg.maxFileBytes()).Error()
	}
	return it
}

// read reads a file. Where the bucket does not answer, the sync ends, and is tried again: that is no fault of the file's.
func (u *uploaded) read(ctx context.Context, one Uploaded) (source.Content, error) {
	content, err := u.from.Bucket.Read(ctx, one.Object, one.Bytes, one.SHA256)
	if errors.Is(err, uploads.ErrGone) {
		return source.Content{}, &source.Unreadable{Reason: "its content is not there any more: it was replaced or deleted while it was read, or is lost; if this stays, upload it again"}
	}
	if errors.Is(err, uploads.ErrCut) {
		return source.Content{}, &source.Unreadable{Reason: "its content is not what was uploaded: it is cut, or was changed, where uploaded files are kept; upload it again"}
	}
	if err != nil {
		return source.Content{}, err
	}
	text, err := u.opts.Reader.Extract(ctx, content, extract.Hint{Name: one.Name})
	if err != nil {
		if ctx.Err() != nil {
			return source.Content{}, ctx.Err()
		}
		return source.Content{}, &source.Unreadable{Reason: err.Error(), Content: extract.OfContent(err)}
	}
	return text, nil
}
