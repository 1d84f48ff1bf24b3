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

// BeginListing says that what is given from here on is all that there is: what it does not show is removed by EndListing.
func (s *Sync) BeginListing() {
	_ = s.Wait() // what was given before is not shown by it
	s.store.BeginListing()
	s.state.Partial = false
	s.expect(func(entry) bool { return true })
}

// ResumeListing says that this run goes on with the listing that an earlier one began, from its checkpoint.
func (s *Sync) ResumeListing() {
	_ = s.Wait()
	s.expect(func(e entry) bool { return !e.Seen })
}

func (s *Sync) expect(is func(entry) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing, s.partial, s.missing, s.stand = true, s.state.Partial, 0, nil
	for id, e := range s.stored {
		if e.missing = is(e); e.missing {
			s.missing++
		}
		s.stored[id] = e
	}
}

// Partial says that the listing leaves out what it could not list; a run that goes on with it need not say so again. EndListing removes nothing then, unless it is told what to keep.
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

// EndListing ends a listing of everything, and removes what it has not shown, but for what keep keeps; nil keeps nothing. Where that is
// suspiciously much nothing is removed, and the sync fails until the owner allows it: the next lists everything from the beginning. keep may
// ask the Sync.
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
		if err := Guard(ctx, s.store, s.opts.Connector, s.removed+removed, s.expects, left == 0); err != nil {
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
	s.listing, s.partial, s.missing, s.stand = false, false, 0, nil
	s.mu.Unlock()
	s.state.Partial = false
	s.store.EndListing()
	return nil
}

// ErrUnasked is what a sync fails with that would remove suspiciously much unless its owner allows it.
var ErrUnasked = errors.New("nothing was deleted")

// Asked is who knows whether a connector's owner allows that very much is deleted; *worker.Run is one.
type Asked interface {
	DeletionsAllowed(ctx context.Context) (bool, error)
}

// Guard is the error (ErrUnasked) of a listing of everything that would remove suspiciously many of the documents that are stored and may be
// found: nil where it would not, or where the connector's owner allows it. empty says that it shows none at all. The next listing is made from
// the beginning (worker.Relist): one that went on from the last page would never see the rest. EndListing asks it; a source that removes by
// itself what it did not find asks it before.
func Guard(ctx context.Context, asked Asked, connector int32, removed, stored int, empty bool) error {
	err := guard(ctx, asked, connector, removed, stored, empty)
	if errors.Is(err, ErrUnasked) {
		return worker.Relist(err)
	}
	return err
}

// suspicious tells whether so much is removed that its owner is asked.
func suspicious(removed, stored int) bool {
	return removed > maxWiped && 100*removed > maxWipedPart*stored
}

func guard(ctx context.Context, asked Asked, connector int32, removed, stored int, empty bool) error {
	if removed == 0 || !suspicious(removed, stored) && !empty {
		return nil
	}
	if allowed, err := asked.DeletionsAllowed(ctx); err != nil || allowed {
		return err
	}
	return fmt.Errorf("%w: %d of the %d documents that are stored are not there any more; if they are gone for good, allow it with: echomind connectors "+
		"trigger %d --allow-deletions; if the source was away, the next try finds them", ErrUnasked, removed, stored, connector)
}

// shows takes an item off what is missing.
func (s *Sync) shows(id string) {
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

// stands says that an item needs nothing to be written.
func (s *Sync) stands(id string, counts bool) {
	if counts {
		s.unchanged.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing && !s.opts.Unresumed {
		s.stand = append(s.stand, id)
	}
}

// unshown says that an item which the listing has shown is gone after all.
func (s *Sync) unshown(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, is := s.stored[id]; is && s.listing && !e.missing {
		e.missing = true
		s.missing++
		s.stored[id] = e
	}
}

// markSeen marks what the listing has shown and what was not written.
func (s *Sync) markSeen(ctx context.Context) error {
	s.mu.Lock()
	stand := s.stand
	s.stand = nil
	s.mu.Unlock()
	if len(stand) == 0 {
		return nil
	}
	return s.store.Seen(ctx, stand...)
}
