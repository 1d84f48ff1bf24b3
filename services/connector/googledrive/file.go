package googledrive

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// entry is an item that is to be a document.
type entry struct {
	id      string
	kind    kind
	parents []string // as they are remembered
	target  string   // a shortcut's
	// item is the item itself; source is where its content is: a shortcut's target.
	item, source *item
}

func (e entry) record(content string) record {
	return record{kind: e.kind, parents: e.parents, content: content, meta: e.item.meta(), target: e.target}
}

// document is what the item itself says. Its title is the file's name: a renamed file is touched without being read,
// so the title cannot come from its content.
func (e entry) document() worker.Document {
	return worker.Document{SourceID: e.id, Title: e.item.title(), URL: e.item.Link, MediaType: e.item.MimeType}
}

// file brings one item up to date. It returns only errors that end the sync.
func (s *syncer) file(ctx context.Context, e entry) error {
	now := e.record(e.source.content())
	reason := s.unreadable(*e.source)
	stored, known := s.stored(e.id)
	old, ok := recordOf(stored)
	if known && ok && !old.failed() && old.kind == e.kind && old.content == now.content && reason == "" {
		if old.samePlace(now) {
			s.standsAsStored(e.id, true)
			return nil
		}
		if !s.isFresh(e.id) {
			return s.touch(ctx, e, now, stored.ContentHash)
		}
	}
	if reason != "" {
		return s.fail(ctx, e, inContent, reason)
	}
	if known && ok && old.failed() && stored.ContentHash == s.failure(e, inContent, "").failure() {
		s.standsAsStored(e.id, true)
		return nil
	}
	if known {
		if stands, err := s.standsUnread(ctx, e, stored); stands || err != nil {
			return err
		}
	}
	weight := e.source.Size
	if e.source.isGoogles() {
		weight = s.bound(*e.source)
	}
	weight = min(max(weight, 1), s.opts.InFlightBytes)
	if err := s.bytes.Acquire(ctx, weight); err != nil {
		return err
	}
	defer s.bytes.Release(weight)
	place, err := s.opts.Room.Take(ctx, weight, nil)
	if err != nil {
		return err
	}
	defer place.Leave()
	return s.read(ctx, e, place)
}

// read downloads and stores one file.
func (s *syncer) read(ctx context.Context, e entry, place *room.Place) error {
	content, mediaType, fresh, err := s.download(ctx, *e.source)
	if fresh.ID != "" {
		e = e.withSource(fresh)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isGone(err):
		return s.vanished(ctx, e, err)
	case errors.Is(err, errTooLarge):
		return s.fail(ctx, e, inContent, err.Error())
	case errors.Is(err, answer.ErrGrown):
		return s.fail(ctx, e, inReading, err.Error())
	case err != nil && endsSync(err):
		return fmt.Errorf("download: %w", err)
	case err != nil:
		why := inReading
		reason, lasting := ofDocument(err)
		if lasting {
			why = inContent
		}
		if !isRefused(err) && !s.failsAsBefore(e, why, reason) {
			if err := s.troubles.Goes(ctx, s.answers); err != nil {
				return fmt.Errorf("download: %w; the last: %s", err, reason)
			}
		}
		return s.fail(ctx, e, why, reason)
	}
	s.troubles.Ends()
	text, err := s.opts.Extract.Extract(ctx, content, e.source.Name, mediaType)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !s.opts.Extract.OfContent(err):
		return s.fail(ctx, e, inReading, err.Error())
	case err != nil:
		return s.fail(ctx, e, inContent, err.Error())
	}
	now := e.record(e.source.content())
	stored, _ := s.stored(e.id)
	if old, ok := recordOf(stored); ok && !old.failed() && old.content != "" && stored.ContentHash == text.Hash && !s.isFresh(e.id) {
		return s.touch(ctx, e, now, text.Hash)
	}
	doc := e.document()
	doc.MediaType, doc.ContentHash, doc.VersionToken = text.MediaType, text.Hash, now.token()
	doc.Chunks = chunk.Split(text.Sections, s.opts.Chunk)
	if err := worker.Oversize(doc.Chunks); err != nil {
		return s.fail(ctx, e, inContent, err.Error())
	}
	place.Hold(room.Of(doc.Chunks))
	s.put.Add(1)
	return s.send(ctx, doc)
}

// vanished: a file that was listed has no content. Where it is still there all the same, the answer was wrong, and no
// change will say so: it has failed.
func (s *syncer) vanished(ctx context.Context, e entry, reason error) error {
	f, err := s.api.item(ctx, e.source.ID, e.source.key)
	switch {
	case err != nil && endsSync(err):
		return fmt.Errorf("look for a file without content: %w", err)
	case (isGone(err) || err == nil && f.Trashed) && e.kind == aShortcut:
		return s.fail(ctx, e, inReading, targetGone)
	case isGone(err):
		return s.away(ctx, e.document(), e.record(""))
	case err == nil && f.Trashed:
		return s.remove(ctx, e.id)
	}
	text, _ := ofDocument(reason)
	return s.fail(ctx, e, inReading, text)
}

// withSource takes what a file turned out to be when it was asked for again. Where it is, is left to the changes.
func (e entry) withSource(fresh item) entry {
	if e.kind == aFile {
		fresh.Parents = e.item.Parents
		e.item = &fresh
	}
	e.source = &fresh
	return e
}

// unreadable says why a file is not even downloaded.
func (s *syncer) unreadable(f item) string {
	if can := f.Capabilities.CanDownload; can != nil && !*can {
		return "its owner does not allow it to be downloaded (canDownload is false); ask for permission to download"
	}
	if f.isGoogles() {
		if _, can := exports[f.MimeType]; !can {
			return fmt.Sprintf("%s holds no text that Google Drive exports", strings.TrimPrefix(oneLine(f.MimeType, 100), googleTypes))
		}
		return ""
	}
	if f.Size > s.cfg.maxFileBytes() {
		return s.tooLarge(f.Size).Error()
	}
	kind, _, _ := strings.Cut(strings.ToLower(f.MimeType), "/")
	switch kind {
	case "image", "audio", "video", "font":
		return oneLine(f.MimeType, 100) + " holds no text that is read"
	}
	return ""
}

func (s *syncer) tooLarge(size int64) error {
	return fmt.Errorf("%w: %d bytes, at most %d are read (max_file_bytes)", errTooLarge, size, s.cfg.maxFileBytes())
}

// folder stores a folder: a document without text, by which later syncs know the tree.
func (s *syncer) folder(ctx context.Context, f item, parents []string) error {
	e := entry{id: f.ID, kind: aFolder, parents: parents, item: &f}
	return s.without(ctx, e, e.record(""))
}

// without stores an entry without text, unless it is stored so.
func (s *syncer) without(ctx context.Context, e entry, now record) error {
	if stored, ok := s.stored(e.id); ok && stored.VersionToken == now.token() {
		s.standsAsStored(e.id, false)
		return nil
	}
	if err := s.bounded(2); err != nil {
		return err
	}
	doc := e.document()
	doc.VersionToken, doc.ContentHash = now.token(), short("no text")
	return s.send(ctx, doc)
}

func (s *syncer) touch(ctx context.Context, e entry, now record, hash string) error {
	doc := e.document()
	doc.VersionToken, doc.ContentHash = now.token(), hash
	s.touched.Add(1)
	s.remember(doc)
	return s.sink.Touch(ctx, doc)
}

func (s *syncer) send(ctx context.Context, doc worker.Document) error {
	s.mu.Lock()
	s.fresh[doc.SourceID] = struct{}{}
	s.mu.Unlock()
	err := s.sink.Put(ctx, doc)
	if err == nil {
		s.remember(doc)
	}
	return err
}

// isFresh tells whether this run has put a document. It must not be touched then: what a run sends is stored in any
// order, and the content to keep may not be there yet.
func (s *syncer) isFresh(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.fresh[id]
	return is
}

func (s *syncer) failure(e entry, why cause, reason string) record {
	r := record{kind: e.kind, parents: e.parents, target: e.target, cause: why}
	meta := ""
	if e.kind != aShortcut { // of which any change of its own is settled anew: see sight
		meta = e.item.meta()
	}
	if why == inContent {
		capable := e.source.Capabilities.CanDownload == nil || *e.source.Capabilities.CanDownload
		r.hash = short(e.source.content(), meta, s.opts.Extract.Version(), fmt.Sprint(capable))
	} else {
		r.hash = short(meta, reason)
	}
	return r
}

// fail puts the failure of a file, unless the same one is stored already.
func (s *syncer) fail(ctx context.Context, e entry, why cause, reason string) error {
	if s.failsAsBefore(e, why, reason) {
		s.standsAsStored(e.id, true)
		return nil
	}
	doc := e.document()
	doc.ContentHash, doc.Err = s.failure(e, why, reason).failure(), oneLine(reason, 900)
	s.failed.Add(1)
	s.mu.Lock()
	s.failedNow[e.id] = true
	s.mu.Unlock()
	return s.send(ctx, doc)
}

// failsAsBefore tells whether the same failure is stored already.
func (s *syncer) failsAsBefore(e entry, why cause, reason string) bool {
	stored, ok := s.stored(e.id)
	return ok && stored.VersionToken == "" && stored.ContentHash == s.failure(e, why, reason).failure()
}

// answers asks for what is synced.
func (s *syncer) answers(ctx context.Context) error {
	_, err := s.api.item(ctx, s.state.roots()[0], "")
	return err
}

// alone takes an error of asking for one item, and returns nil where the sync goes on without it.
func (s *syncer) alone(ctx context.Context, err error) error {
	return s.troubles.Alone(ctx, err, endsSync, s.answers)
}

// remove deletes a document if it is stored.
func (s *syncer) remove(ctx context.Context, id string) error {
	s.mu.Lock()
	k, known := s.known[id]
	delete(s.known, id)
	delete(s.missing, id)
	if e := s.shortcuts[id]; e.item != nil {
		s.held -= e.item.weight()
	}
	delete(s.shortcuts, id)
	s.mu.Unlock()
	if !known {
		return nil
	}
	if r, ok := recordOf(k); !ok || r.kind != aFolder {
		s.deleted.Add(1)
	}
	return s.sink.Delete(ctx, id)
}

func (s *syncer) stored(id string) (worker.Known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[id]
	return k, ok
}

// standsAsStored: nothing has to be written.
func (s *syncer) standsAsStored(id string, isFile bool) {
	if isFile {
		s.unchanged.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing {
		delete(s.missing, id)
		s.stand = append(s.stand, id)
	}
}

// remember keeps what is stored as of now: an item may be reported again in this very sync.
func (s *syncer) remember(doc worker.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[doc.SourceID] = worker.Known{VersionToken: doc.VersionToken, ContentHash: doc.ContentHash}
	delete(s.missing, doc.SourceID)
}
