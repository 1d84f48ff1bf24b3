package source

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomind/sync/sdk/worker"
)

// A listing of everything that would remove more than maxWiped items, and more than maxWipedPart in 100 of what is stored, removes
// nothing: an unmounted folder and a site that answers "we are back soon" look the same as an owner who tidies up.
const (
	maxWiped     = 20
	maxWipedPart = 30
)

// BeginListing says that a listing of everything begins: EndListing removes what it has not shown.
func (s *Sync) BeginListing() {
	_ = s.Wait() // items that were given before do not count as shown
	s.store.BeginListing()
	s.state.Partial = false
	s.expect(func(entry) bool { return true })
}

// ResumeListing says that this run continues the listing of an earlier run, from its checkpoint.
func (s *Sync) ResumeListing() {
	_ = s.Wait()
	s.expect(func(e entry) bool { return !e.Seen })
}

func (s *Sync) expect(is func(entry) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing, s.partial, s.missing, s.unwritten = true, s.state.Partial, 0, nil
	for id, e := range s.stored {
		if e.missing = is(e); e.missing {
			s.missing++
		}
		s.stored[id] = e
	}
}

// Partial says that the listing leaves out items that it could not list; a run that continues it need not say so again. EndListing
// then removes nothing, unless it is told what to keep.
func (s *Sync) Partial() {
	s.partial, s.state.Partial = true, true
	s.store.ListingPartial()
}

// Missing tells whether the listing has not shown a stored item so far.
func (s *Sync) Missing(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listing && s.stored[id].missing
}

// EndListing ends a listing of everything, and removes the items that it has not shown, except those that keep keeps; a nil keep
// keeps none. Where that would remove suspiciously many nothing is removed, and the sync fails until the owner allows it; the next
// sync lists everything from the beginning. keep may call methods of the Sync.
func (s *Sync) EndListing(ctx context.Context, keep func(id string, of Stored) bool) error {
	if err := s.Wait(); err != nil {
		return err
	}
	var gone []string
	removed, left := 0, 0
	for id, of := range s.All() {
		stays := !s.Missing(id)
		if !stays && (keep == nil && s.partial || keep != nil && keep(id, of)) {
			stays = true
			s.unchanged.Add(1)
		}
		if !stays {
			gone = append(gone, id)
		}
		switch {
		case of.Found && stays:
			left++
		case of.Found:
			removed++
		}
	}
	if removed > 0 {
		if err := guardDeletions(ctx, s.store, s.opts.Connector, s.removed, removed, s.findable, left == 0); err != nil {
			return err
		}
	}
	s.removed += removed
	slices.Sort(gone)
	for _, id := range gone {
		if err := s.Remove(ctx, id); err != nil {
			return err
		}
	}
	s.mu.Lock()
	for id, e := range s.stored {
		e.missing = false
		s.stored[id] = e
	}
	s.listing, s.partial, s.missing, s.unwritten, s.unmarked = false, false, 0, nil, true
	s.mu.Unlock()
	s.state.Partial = false
	s.store.EndListing()
	return nil
}

// ErrDeletionsRefused is among what the error wraps of a sync that would remove suspiciously many documents and whose owner has not allowed it.
var ErrDeletionsRefused = errors.New("many deletions are not allowed")

type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }
func (e *refusedError) Unwrap() error { return ErrDeletionsRefused }

// DeletionPolicy knows whether a connector's owner allows many deletions at once; *worker.Run is one.
type DeletionPolicy interface {
	DeletionsAllowed(ctx context.Context) (bool, error)
}

// GuardDeletions returns ErrDeletionsRefused for a listing of everything that would remove suspiciously many of the documents that
// can be found: nil where it would not, or where the connector's owner allows it. empty says that the listing shows nothing at all.
// The next listing starts from the beginning (worker.Relist), because a continued listing would never see the missing items.
// EndListing calls it; a source that removes items by itself calls it before.
func GuardDeletions(ctx context.Context, asked DeletionPolicy, connector int32, removed, stored int, empty bool) error {
	return guardDeletions(ctx, asked, connector, 0, removed, stored, empty)
}

func guardDeletions(ctx context.Context, asked DeletionPolicy, connector int32, before, removed, stored int, empty bool) error {
	err := checkDeletions(ctx, asked, connector, before, removed, stored, empty)
	if errors.Is(err, ErrDeletionsRefused) {
		return worker.Relist(err)
	}
	return err
}

// suspicious tells whether so many are removed that the owner must allow it.
func suspicious(removed, stored int) bool {
	return removed > maxWiped && 100*removed > maxWipedPart*stored
}

// checkDeletions is GuardDeletions for a sync that has removed some before, and does not begin anew.
func checkDeletions(ctx context.Context, asked DeletionPolicy, connector int32, before, removed, stored int, empty bool) error {
	if removed == 0 || !suspicious(before+removed, stored) && !empty {
		return nil
	}
	if allowed, err := asked.DeletionsAllowed(ctx); err != nil || allowed {
		return err
	}
	what := "nothing was deleted"
	if before > 0 {
		what = fmt.Sprintf("no more than %d documents were deleted", before)
	}
	return &refusedError{fmt.Sprintf("%s: %d of the %d documents that were stored are not there any more; if they are gone for good, allow it with: echomind connectors "+
		"trigger %d --allow-deletions; if the source was away, the next try finds them", what, before+removed, stored, connector)}
}

// markShown notes that the listing has shown an item.
func (s *Sync) markShown(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, is := s.stored[id]
	if !is {
		return
	}
	delete(s.lost, id)
	if e.missing {
		s.missing--
	}
	e.shown, e.missing = true, false
	s.stored[id] = e
}

// markUnchanged notes that an item needs no write.
func (s *Sync) markUnchanged(id string, counts bool) {
	if counts {
		s.unchanged.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing && !s.opts.Unresumed {
		s.unwritten = append(s.unwritten, id)
	}
}

// unmarkShown notes that an item that the listing has shown is gone after all.
func (s *Sync) unmarkShown(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, is := s.stored[id]; is && s.listing && !e.missing {
		e.missing = true
		s.missing++
		s.stored[id] = e
	}
}

// markSeen sends which items the listing has shown and the sync has not written.
func (s *Sync) markSeen(ctx context.Context) error {
	s.mu.Lock()
	stand := s.unwritten
	s.unwritten = nil
	s.mu.Unlock()
	if len(stand) == 0 {
		return nil
	}
	return s.store.Seen(ctx, stand...)
}
