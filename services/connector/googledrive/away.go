package googledrive

import (
	"context"
	"fmt"
	"slices"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/again"
)

// maxLater bounds what is remembered to be looked at by the next sync: it has its place in the state.
const maxLater = 100

// awayHash is that of a document that was not there.
var awayHash = short("", again.Away)

// later has the next sync look at an item. It returns false where no more are remembered.
func (s *syncer) later(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.Contains(s.state.Later, id):
	case len(s.state.Later) >= maxLater || !validID(id):
		return false
	default:
		s.state.Later = append(slices.Clone(s.state.Later), id)
	}
	return true
}

// lookAtLater looks at what earlier syncs have left.
func (s *syncer) lookAtLater(ctx context.Context) error {
	due := s.due
	s.due = nil
	var changes []change
	for _, id := range due {
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err) || isRefused(err):
			changes = append(changes, change{FileID: id, Removed: true})
		case err != nil:
			if err := s.alone(ctx, err); err != nil {
				return fmt.Errorf("look at what could not be looked at: %w", err)
			}
			continue
		default:
			changes = append(changes, change{FileID: id, File: &f})
		}
		s.state.Later = slices.DeleteFunc(slices.Clone(s.state.Later), func(one string) bool { return one == id })
	}
	return s.changesPage(ctx, "", changes)
}

// notListed takes note of a folder that is not there when what is in it is listed: the next sync looks at it. What a listing of everything
// does not show because of that is kept, until another does not find the folder either.
func (s *syncer) notListed(id string) {
	switch {
	case !s.listing:
		s.later(id)
	case !slices.Contains(s.state.Away, id) && !slices.Contains(s.state.Kept, id):
		if len(s.state.Kept) >= maxLater { // as many have their place in the state: all is kept
			s.state.Kept = s.state.roots()
			return
		}
		s.state.Kept = append(slices.Clone(s.state.Kept), id)
	}
}

// isKept tells whether what has these parents is below a folder of which all is kept.
func (s *syncer) isKept(parents []string) bool {
	for range maxDepth {
		if len(s.state.Kept) == 0 || len(parents) == 0 {
			return false
		}
		if slices.ContainsFunc(parents, func(id string) bool { return slices.Contains(s.state.Kept, id) }) {
			return true
		}
		k, _ := s.stored(parents[0])
		r, _ := recordOf(k)
		parents = r.parents
	}
	return false
}

// next is the state that the next sync goes on from. Where something was kept, that one lists everything again.
func (s *syncer) next() state {
	if len(s.state.Kept) == 0 {
		s.state.Away = nil
		return s.state.clone()
	}
	return state{Failed: s.state.Failed, Refused: s.state.Refused, Later: s.state.Later, Away: s.state.Kept}.clone()
}

// away keeps what is stored of a document that is not there now, and marks it: the next sync looks for it again. Where that does not find
// it either, it is deleted (again.Goes). One that is not stored is only looked for again.
func (s *syncer) away(ctx context.Context, doc worker.Document, at record) error {
	stored, known := s.stored(doc.SourceID)
	if old, _ := recordOf(stored); again.Goes(old.hash == awayHash, s.isFresh(doc.SourceID)) {
		return s.remove(ctx, doc.SourceID)
	}
	if !known && s.later(doc.SourceID) {
		return nil
	}
	doc.ContentHash, doc.Err = record{cause: inReading, hash: awayHash, kind: at.kind, parents: at.parents}.failure(), again.Away
	if stored.VersionToken == "" && stored.ContentHash == doc.ContentHash {
		s.standsAsStored(doc.SourceID, true)
		return nil
	}
	s.failed.Add(1)
	s.mu.Lock()
	s.failedNow[doc.SourceID] = true
	s.mu.Unlock()
	return s.send(ctx, doc)
}
