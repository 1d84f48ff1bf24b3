package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/extract"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files/rootblob"
)

type syncer struct {
	cfg    Config
	globs  globs
	opts   Options
	sink   Sink
	bucket *blob.Bucket
	folder string
	known  map[string]worker.Known
	bytes  *semaphore.Weighted
	work   chan file

	// These belong to the listing until it has ended.
	missing     map[string]worker.Known
	unread      []string
	listedCount int
	listedBytes int // of source ids

	put, touched, unchanged, deleted, failed atomic.Int64
}

func (s *syncer) result() Result {
	return Result{
		Listed: s.listedCount, Put: int(s.put.Load()), Touched: int(s.touched.Load()), Unchanged: int(s.unchanged.Load()),
		Deleted: int(s.deleted.Load()), Failed: int(s.failed.Load()), Whole: len(s.unread) == 0,
	}
}

// process works until the listing is done or ctx ends.
func (s *syncer) process(ctx context.Context) error {
	for f := range s.work {
		var broken *caught.Panic
		err := caught.Do(func() error { return s.handle(ctx, f) })
		if errors.As(err, &broken) {
			err = s.fail(ctx, f, f.token, broken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handle brings one file up to date. It returns only errors that end the sync.
func (s *syncer) handle(ctx context.Context, f file) error {
	if f.err == nil && f.size > s.cfg.maxFileBytes() {
		f.err = s.tooLarge(f.size)
	}
	if f.err != nil {
		return s.fail(ctx, f, f.token, f.err)
	}
	if stored, ok := s.known[f.id]; ok && stored.VersionToken == "" && stored.ContentHash == s.contentFailure(f.token) {
		s.unchanged.Add(1)
		return nil
	}
	r, err := s.bucket.NewReader(ctx, f.key, nil)
	if err != nil {
		return s.unreadable(ctx, f, f.token, reasonOf(err))
	}
	defer r.Close()
	// It may have grown since it was listed: room is for what is read, which is the file as it was opened.
	f.size, f.token = r.Size(), token(r.Size(), r.ModTime())
	if f.size > s.cfg.maxFileBytes() {
		return s.fail(ctx, f, f.token, s.tooLarge(f.size))
	}
	weight := min(max(f.size, 1), s.opts.InFlightBytes)
	if err := s.bytes.Acquire(ctx, weight); err != nil {
		return err
	}
	release := sync.OnceFunc(func() { s.bytes.Release(weight) })
	defer release()
	place, err := s.opts.Room.Take(ctx, f.size, nil)
	if err != nil {
		return err
	}
	defer place.Leave()
	doc, err := s.read(ctx, f, r)
	release()
	if err != nil {
		return s.unreadable(ctx, f, f.token, err)
	}
	if s.isStored(doc) {
		s.touched.Add(1)
		return s.sink.Touch(ctx, doc)
	}
	place.Hold(room.Of(doc.Chunks))
	s.put.Add(1)
	return s.sink.Put(ctx, doc)
}

// unreadable draws the consequences of a file that was not read.
func (s *syncer) unreadable(ctx context.Context, f file, token string, reason error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(reason, fs.ErrNotExist):
		return s.gone(ctx, f)
	}
	return s.fail(ctx, f, token, reason)
}

// gone handles a file that vanished between listing and reading: it is as if it had never been listed.
func (s *syncer) gone(ctx context.Context, f file) error {
	if _, ok := s.known[f.id]; !ok {
		return nil
	}
	s.deleted.Add(1)
	return s.sink.Delete(ctx, f.id)
}

// fail puts the failure of a file, unless the same one is stored already.
func (s *syncer) fail(ctx context.Context, f file, token string, reason error) error {
	hash := readFailure(token, reason)
	if extract.OfContent(reason) {
		hash = s.contentFailure(token)
	}
	if stored, ok := s.known[f.id]; ok && stored.VersionToken == "" && stored.ContentHash == hash {
		s.unchanged.Add(1)
		return nil
	}
	s.failed.Add(1)
	return s.sink.Put(ctx, worker.Document{
		SourceID: f.id, Title: path.Base(rootblob.Escape(f.path)), URL: fileURL(s.folder, f.path), ContentHash: hash,
		Err: oneLine(reason.Error()),
	})
}

// read reads, extracts and cuts a file. Its version token is that of the file as it was opened, so that a
// change during or after the reading shows at the next sync.
func (s *syncer) read(ctx context.Context, f file, r *blob.Reader) (worker.Document, error) {
	doc := worker.Document{SourceID: f.id, URL: fileURL(s.folder, f.path), VersionToken: f.token}
	if err := s.settle(ctx, r.ModTime()); err != nil {
		return doc, err
	}
	content, err := contentOf(r)
	if err != nil {
		return doc, reasonOf(err)
	}
	text, err := s.opts.Reader.Extract(ctx, content, extract.Hint{Name: path.Base(f.path), URL: doc.URL})
	if err != nil {
		return doc, err
	}
	doc.Title, doc.MediaType, doc.ContentHash = text.Title, text.MediaType, text.ContentHash()
	if doc.Title == "" {
		doc.Title = path.Base(rootblob.Escape(f.path))
	}
	if !s.isStored(doc) {
		doc.Chunks = chunk.Split(text.Sections, s.opts.Chunk)
		if err := worker.Oversize(doc.Chunks); err != nil {
			return doc, fmt.Errorf("%w: %w", extract.ErrTooLarge, err)
		}
	}
	return doc, nil
}

// isStored tells whether the content of doc is what is stored.
func (s *syncer) isStored(doc worker.Document) bool {
	stored, ok := s.known[doc.SourceID]
	return ok && stored.VersionToken != "" && stored.ContentHash == doc.ContentHash
}

// contentOf reads as much as the file had when it was opened, however much it grows.
func contentOf(r *blob.Reader) ([]byte, error) {
	content := make([]byte, r.Size())
	n, err := io.ReadFull(r, content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // it was cut meanwhile
	}
	return content[:n], err
}

func (s *syncer) tooLarge(size int64) error {
	return fmt.Errorf("%w: %d bytes, at most %d are read (max_file_bytes)", errTooLarge, size, s.cfg.maxFileBytes())
}

var errTooLarge = errors.New("file too large")

// tick is longer than the kernel's clock for times of change may stand still.
const tick = 20 * time.Millisecond

// settle waits out the tick in which a file was changed: a second change of the same size in the same tick
// would otherwise leave the same token, and never be seen.
func (s *syncer) settle(ctx context.Context, modified time.Time) error {
	age := s.opts.Now().Sub(modified)
	if age < 0 || age >= tick {
		return nil
	}
	return pause(ctx, tick-age)
}

// readFailure is the content hash of a document that could not be read.
func readFailure(token string, reason error) string { return hash("read", token, reason.Error()) }

// contentFailure is that of one whose content cannot be extracted. It is known before the file is read.
func (s *syncer) contentFailure(token string) string {
	return hash("content", token, s.opts.Reader.Version())
}

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
