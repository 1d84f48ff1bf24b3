package onedrive

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

// file brings one item that is no folder up to date. It returns only errors that end the sync.
func (s *syncer) file(ctx context.Context, item graph.Item, folders []step) error {
	now := tokenOf(item, folders)
	stored, known := s.stored(item.ID)
	refused := s.reader.Refusal(item) != ""
	if old, ok := parseToken(stored.VersionToken); ok && !refused {
		now.Version = now.Merge(old.Version)
		switch {
		case now.same(old):
			s.standsAsStored(item.ID)
			return nil
		case now.SameContent(old.Version) && !s.isFresh(item.ID):
			return s.touch(ctx, document(item), now, stored.ContentHash)
		}
	}
	if known && stored.VersionToken == "" && stored.ContentHash == s.failure(&graph.Unreadable{Content: true}, now).String() {
		s.standsAsStored(item.ID)
		return nil
	}
	if known {
		if stands, err := s.standsUnread(ctx, item, stored, now); stands || err != nil {
			return err
		}
	}
	weight := min(max(item.Size, 1), s.opts.InFlightBytes)
	if refused {
		weight = 1
	}
	if err := s.bytes.Acquire(ctx, weight); err != nil {
		return err
	}
	defer s.bytes.Release(weight)
	place, err := s.opts.Room.Take(ctx, weight, nil)
	if err != nil {
		return err
	}
	defer place.Leave()
	return s.read(ctx, item, now, place)
}

// read downloads and stores one file.
func (s *syncer) read(ctx context.Context, item graph.Item, now token, place *room.Place) error {
	text, fresh, err := s.reader.Read(ctx, s.state.Drive, item)
	if fresh.ETag != item.ETag || fresh.CTag != item.CTag {
		// It was asked for again, and is newer than its listing, or listed in full. If it was moved meanwhile, the
		// delta after this one reports it.
		now.Version = graph.VersionOf(fresh).Merge(now.Version)
	}
	var unreadable *graph.Unreadable
	switch {
	case errors.Is(err, graph.ErrVanished):
		return s.away(ctx, item, now.folders, away)
	case errors.As(err, &unreadable):
		return s.fail(ctx, fresh, now, unreadable)
	case err != nil:
		return err
	}
	s.troubles.Ends()
	doc := document(fresh)
	doc.MediaType, doc.ContentHash, doc.VersionToken = text.MediaType, text.Hash, now.String()
	if stored, ok := s.stored(fresh.ID); ok && stored.VersionToken != "" && stored.ContentHash == text.Hash && !s.isFresh(fresh.ID) {
		return s.touch(ctx, doc, now, text.Hash)
	}
	doc.Chunks = chunk.Split(text.Sections, s.opts.Chunk)
	if err := worker.Oversize(doc.Chunks); err != nil {
		return s.fail(ctx, fresh, now, &graph.Unreadable{Reason: err.Error(), Content: true})
	}
	place.Hold(room.Of(doc.Chunks))
	s.put.Add(1)
	return s.send(ctx, doc)
}

// document is what the item itself says. Its title is the file's name: a renamed file is touched without being read,
// so the title cannot come from its content.
func document(item graph.Item) worker.Document {
	return worker.Document{SourceID: item.ID, Title: item.Name, URL: item.WebURL, MediaType: item.MediaType()}
}

func (s *syncer) touch(ctx context.Context, doc worker.Document, now token, hash string) error {
	doc.VersionToken, doc.ContentHash = now.String(), hash
	s.touched.Add(1)
	s.remember(doc)
	return s.sink.Touch(ctx, doc)
}

func (s *syncer) send(ctx context.Context, doc worker.Document) error {
	s.remember(doc)
	s.mu.Lock()
	s.fresh[doc.SourceID] = struct{}{}
	s.mu.Unlock()
	return s.sink.Put(ctx, doc)
}

// isFresh tells whether this run has put a document. It must not be touched then: what a run sends is stored in any
// order, and the content to keep may not be there yet.
func (s *syncer) isFresh(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.fresh[id]
	return is
}

func (s *syncer) failure(why *graph.Unreadable, now token) failure {
	if why.Content {
		// The item's name decides what some content is read as, and is part of its eTag.
		return failure{kind: ofContent + s.opts.Extract.Version(), hash: graph.Short(now.ETag), folders: now.folders}
	}
	return failure{kind: ofReading, hash: graph.Short(now.ETag, why.Reason), folders: now.folders}
}

// fail puts the failure of a file, unless the same one is stored already.
func (s *syncer) fail(ctx context.Context, item graph.Item, now token, why *graph.Unreadable) error {
	doc := document(item)
	doc.ContentHash, doc.Err = s.failure(why, now).String(), strings.Join(strings.Fields(why.Reason), " ")
	if stored, ok := s.stored(item.ID); ok && stored.VersionToken == "" && stored.ContentHash == doc.ContentHash {
		s.standsAsStored(item.ID)
		return nil
	}
	if why.Trouble {
		if err := s.troubles.Goes(ctx, s.answers); err != nil {
			return fmt.Errorf("%w; the last: %w", err, why)
		}
	}
	s.failed.Add(1)
	return s.send(ctx, doc)
}

// answers asks for the folder that is synced.
func (s *syncer) answers(ctx context.Context) error {
	_, err := s.api.Item(ctx, s.state.Drive, s.state.Root)
	return err
}

// remove deletes a document if it is stored.
func (s *syncer) remove(ctx context.Context, id string) error {
	s.mu.Lock()
	_, known := s.known[id]
	delete(s.known, id)
	s.mu.Unlock()
	if !known {
		return nil
	}
	s.deleted.Add(1)
	return s.sink.Delete(ctx, id)
}

func (s *syncer) stored(id string) (worker.Known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[id]
	return k, ok
}

// remember keeps what is stored as of now: an item may be reported again in this very sync.
func (s *syncer) remember(doc worker.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[doc.SourceID] = worker.Known{VersionToken: doc.VersionToken, ContentHash: doc.ContentHash}
}
