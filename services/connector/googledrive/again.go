package googledrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/again"
)

// maxAgain is how many documents that failed are tried again beside the changes, of those that could not be read and of those that could
// not be stored, until it shows that it helps; which ones is left to chance, so that all have their turn.
const maxAgain = 100

// errUnplaced says that it is not known where documents are, and that they may have gone.
var errUnplaced = errors.New("it is not known where some documents are")

// nothingKnown tells whether nothing is remembered with a document: it was refused, or its deletion was given up.
func nothingKnown(k worker.Known) bool { return k.VersionToken == "" && k.ContentHash == "" }

// lookAtGivenUp looks at what the store has given up as if it had changed: nothing is remembered with it, not even where it
// is. The kit asks for that (worker.Run.Known). Where some may have gone with a folder and were not looked at, or may not be asked for,
// everything is listed: what is not shown goes. The earlier text of what has moved to where others may not read it would be found for
// ever otherwise.
func (s *syncer) lookAtGivenUp(ctx context.Context) error {
	var unknown, waiting []string
	for _, id := range s.ids() { // in no order
		k, _ := s.stored(id)
		r, _ := recordOf(k)
		_, missing := s.missing[id] // those are swept
		switch {
		case missing || s.failedNow[id] || s.tree.roots[id]:
		case nothingKnown(k):
			unknown = append(unknown, id)
		case r.waits() && !s.confirming: // a listing that finds out where documents are has shown them
			waiting = append(waiting, id)
		}
	}
	slices.SortStableFunc(unknown, func(a, b string) int { return cmp.Compare(s.folderRank(a), s.folderRank(b)) })
	try, place := unknown[:min(s.state.Refused.Tried, len(unknown))], []string(nil)
	if !s.confirming {
		s.state.Refused, try, place = s.state.Refused.Refused(unknown, waiting, maxAgain)
	}
	for _, id := range place {
		s.placing[id] = struct{}{}
	}
	for batch := range slices.Chunk(slices.Concat(place, try), maxAgain) {
		if err := s.lookAt(ctx, batch); err != nil {
			return err
		}
	}
	went := (s.unsettled || len(s.left) > 0) && len(place) == 0 && len(unknown) > len(try)
	if !s.confirming && (went || len(s.unconfirmed) > 0) {
		return errUnplaced
	}
	return nil
}

// folderRank has the folders first of which it is known that something is in them.
func (s *syncer) folderRank(id string) int {
	if _, is := s.above[id]; is {
		return 0
	}
	return 1
}

// placeGivenUp finds out where the folders are of which nothing is known and in which something is stored: that would be below no root
// otherwise.
func (s *syncer) placeGivenUp(ctx context.Context) error {
	s.above = map[string]struct{}{}
	if s.listing {
		return nil
	}
	var due []string
	find := func(parents []string) {
		for _, id := range parents {
			if _, had := s.above[id]; !had && s.isUnknown(id) {
				s.above[id] = struct{}{}
				due = append(due, id)
			}
		}
	}
	for _, k := range s.known {
		if r, ok := recordOf(k); ok {
			find(r.parents)
		}
	}
	for asked := 0; len(due) > 0 && asked < maxAgain; asked++ {
		id := due[0]
		due = due[1:]
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err) || isRefused(err): // the changes say so, or it is looked for
		case err != nil:
			if err := s.alone(ctx, err); err != nil {
				return fmt.Errorf("look at a folder that was given up: %w", err)
			}
		case f.isFolder() && !f.Trashed:
			s.tree.set(id, f.Parents)
			find(f.Parents)
		}
	}
	return nil
}

// isUnknown tells whether something is stored of which nothing is known.
func (s *syncer) isUnknown(id string) bool {
	k, is := s.stored(id)
	_, missing := s.missing[id]
	return is && !missing && nothingKnown(k)
}

// isUnplaced tells whether parents are below a folder of which it is not known where it is.
func (s *syncer) isUnplaced(parents []string) bool {
	for range maxDepth {
		if len(parents) == 0 {
			return false
		}
		id := parents[0]
		above, known := s.tree.folders[id]
		if !known {
			return s.isUnknown(id)
		}
		parents = above
	}
	return false
}

// lookAt looks at documents of which nothing is known.
func (s *syncer) lookAt(ctx context.Context, ids []string) error {
	var changes []change
	for _, id := range ids {
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err):
			k, _ := s.stored(id)
			if r, ok := recordOf(k); ok && r.waits() {
				if err := s.away(ctx, worker.Document{SourceID: id, Title: "File"}, r); err != nil {
					return err
				}
				continue
			}
			changes = append(changes, change{FileID: id, Removed: true})
		case isRefused(err):
			if k, _ := s.stored(id); nothingKnown(k) {
				s.unconfirmed[id] = struct{}{}
			}
		case err != nil:
			if err := s.alone(ctx, err); err != nil {
				return fmt.Errorf("look at a document that was given up: %w", err)
			}
		default:
			changes = append(changes, change{FileID: id, File: &f})
		}
	}
	return s.changesPage(ctx, "", changes)
}

// waitsHash is that of a document that could not be stored, and of which only its place is known.
var waitsHash = short("", again.Waits)

func (r record) waits() bool { return r.cause == inReading && r.hash == waitsHash && r.kind == aFile }

// standsUnread tells whether a document is not read that is asked for only to find out where it is: it has its turn when it is looked
// at. In a listing for that, what may not be asked for is read, because it then fails with its place.
func (s *syncer) standsUnread(ctx context.Context, e entry, stored worker.Known) (bool, error) {
	_, place := s.placing[e.id]
	_, ask := s.unconfirmed[e.id]
	if !place && (!s.confirming || ask) || e.kind != aFile {
		return false, nil
	}
	if r, ok := recordOf(stored); ok && s.confirming && r.cause == inReading && slices.Equal(r.parents, e.parents) {
		s.standsAsStored(e.id, true)
		return true, nil
	}
	if !nothingKnown(stored) {
		return false, nil
	}
	doc := e.document()
	doc.ContentHash = record{cause: inReading, hash: waitsHash, kind: e.kind, parents: e.parents}.failure()
	doc.Err = again.Waits
	s.failed.Add(1)
	s.mu.Lock()
	s.failedNow[e.id] = true
	s.mu.Unlock()
	return true, s.send(ctx, doc)
}

// tryFailedAgain reads what could not be read before this sync and is not among the changes: a permission that was granted may
// not be one of the file.
func (s *syncer) tryFailedAgain(ctx context.Context) error {
	var ids []string
	for _, id := range s.ids() { // in no order
		k, _ := s.stored(id)
		if r, ok := recordOf(k); ok && r.cause == inReading && r.kind == aFile && !r.waits() && !s.failedNow[id] {
			ids = append(ids, id)
		}
	}
	s.state.Failed = s.state.Failed.Of(len(ids), maxAgain)
	var files []item
	for i, id := range ids[:s.state.Failed.Tried] {
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err):
			k, _ := s.stored(id)
			r, _ := recordOf(k)
			if err := s.away(ctx, worker.Document{SourceID: id, Title: "File"}, r); err != nil {
				return err
			}
		case isRefused(err):
			s.unchanged.Add(1)
		case err != nil:
			if err := s.alone(ctx, err); err != nil {
				return fmt.Errorf("try a failed document again: %w", err)
			}
			s.unchanged.Add(1)
		default:
			files = append(files, f)
		}
		if len(files) == maxAgain || i+1 == s.state.Failed.Tried {
			if err := s.changedFiles(ctx, files); err != nil {
				return err
			}
			files = nil
		}
	}
	return nil
}
