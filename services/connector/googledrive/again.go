package googledrive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomind/sync/sdk/worker"
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
	var ids []string
	for _, id := range s.ids() { // in no order
		k, _ := s.stored(id)
		_, missing := s.missing[id] // those are swept
		if nothingKnown(k) && !missing && !s.failedNow[id] && !s.tree.roots[id] {
			ids = append(ids, id)
		}
	}
	if !s.confirming {
		s.state.Refused = s.state.Refused.Of(len(ids), maxAgain)
	}
	for batch := range slices.Chunk(ids[:min(s.state.Refused.Tried, len(ids))], maxAgain) {
		if err := s.lookAt(ctx, batch); err != nil {
			return err
		}
	}
	went := (s.unsettled || len(s.left) > 0) && len(ids) > s.state.Refused.Tried
	if !s.confirming && (went || len(s.unconfirmed) > 0) {
		return errUnplaced
	}
	return nil
}

// lookAt looks at documents of which nothing is known.
func (s *syncer) lookAt(ctx context.Context, ids []string) error {
	var changes []change
	for _, id := range ids {
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err):
			changes = append(changes, change{FileID: id, Removed: true})
		case isRefused(err):
			s.unconfirmed[id] = struct{}{}
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

// standsUnread tells whether a document is not read that is listed only to find out where it is: it has its turn when it is looked at.
// What may not be asked for is read, because it then fails with its place.
func (s *syncer) standsUnread(e entry, stored worker.Known) bool {
	if _, ask := s.unconfirmed[e.id]; !s.confirming || ask || !nothingKnown(stored) {
		return false
	}
	place := record{cause: inReading, kind: e.kind, parents: e.parents, target: e.target} // should its folder go in this sync
	s.mu.Lock()
	s.known[e.id] = worker.Known{ContentHash: place.failure()}
	s.failedNow[e.id] = true
	s.mu.Unlock()
	s.standsAsStored(e.id, true)
	return true
}

// tryFailedAgain reads what could not be read before this sync and is not among the changes: a permission that was granted may
// not be one of the file.
func (s *syncer) tryFailedAgain(ctx context.Context) error {
	var ids []string
	for _, id := range s.ids() { // in no order
		k, _ := s.stored(id)
		if r, ok := recordOf(k); ok && r.cause == inReading && r.kind == aFile && !s.failedNow[id] {
			ids = append(ids, id)
		}
	}
	s.state.Failed = s.state.Failed.Of(len(ids), maxAgain)
	var files []item
	for i, id := range ids[:s.state.Failed.Tried] {
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err):
			if err := s.remove(ctx, id); err != nil {
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
