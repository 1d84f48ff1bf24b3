package googledrive

import (
	"context"
	"fmt"
)

// maxAgain bounds how many failed documents are tried again beside the changes; which ones is left to chance, so that
// all have their turn.
const maxAgain = 100

// settle ends a round: what depends on all of it.
func (s *syncer) settle(ctx context.Context) error {
	if err := s.lookAtGivenUp(ctx); err != nil {
		return err
	}
	if err := s.listCome(ctx); err != nil {
		return err
	}
	if err := s.storeChanged(ctx); err != nil {
		return err
	}
	for id := range s.left {
		if s.tree.holds(id) {
			continue // a folder above it has come
		}
		if err := s.remove(ctx, id); err != nil {
			return err
		}
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	if err := s.checkCount(); err != nil {
		return err
	}
	if err := s.settleShortcuts(ctx); err != nil {
		return err
	}
	if err := s.tryFailedAgain(ctx); err != nil {
		return err
	}
	if s.listing {
		s.sink.EndListing()
	}
	return nil
}

// lookAtGivenUp looks at what the store has given up as if it had changed: nothing is remembered with it, not even where it
// is. The kit asks for that (worker.Run.Known).
func (s *syncer) lookAtGivenUp(ctx context.Context) error {
	var changes []change
	for _, id := range s.ids() { // in no order
		k, _ := s.stored(id)
		_, shown := s.shown[id]
		stays := shown || !s.listing || s.resumed && k.Seen // others are swept
		if k.VersionToken != "" || k.ContentHash != "" || !stays || s.failedNow[id] || s.tree.roots[id] {
			continue
		}
		if len(changes) == maxAgain {
			break
		}
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err):
			changes = append(changes, change{FileID: id, Removed: true})
		case isRefused(err):
		case err != nil:
			return fmt.Errorf("look at a document that was given up: %w", err)
		default:
			changes = append(changes, change{FileID: id, File: &f})
		}
	}
	return s.changesPage(ctx, "", changes)
}

// sweep deletes what a listing of everything has not shown, and what is no longer below a root because a folder above
// it has gone.
func (s *syncer) sweep(ctx context.Context) error {
	for _, id := range s.ids() {
		k, _ := s.stored(id)
		r, ok := recordOf(k)
		_, shown := s.shown[id]
		stays := true
		switch {
		case s.listing && !shown && !(s.resumed && k.Seen):
			stays = false
		case ok:
			_, stays = s.tree.place(r.parents)
		}
		if !stays {
			if err := s.remove(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *syncer) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.known))
	for id := range s.known {
		ids = append(ids, id)
	}
	return ids
}

// tryFailedAgain reads what could not be read before this sync and is not among the changes: a permission that was granted may
// not be one of the file.
func (s *syncer) tryFailedAgain(ctx context.Context) error {
	var files []item
	for _, id := range s.ids() { // in no order
		k, _ := s.stored(id)
		if r, ok := recordOf(k); !ok || r.cause != inReading || r.kind != aFile || s.failedNow[id] {
			continue
		}
		if len(files) == maxAgain {
			break
		}
		f, err := s.api.item(ctx, id, "")
		switch {
		case isGone(err):
			if err := s.remove(ctx, id); err != nil {
				return err
			}
		case isRefused(err):
			s.unchanged.Add(1)
		case err != nil:
			return fmt.Errorf("try a failed document again: %w", err)
		default:
			files = append(files, f)
		}
	}
	return s.changedFiles(ctx, files)
}
