package googledrive

import (
	"context"
)

// settle ends a round: what depends on all of it.
func (s *syncer) settle(ctx context.Context) error {
	if err := s.lookAtLater(ctx); err != nil {
		return err
	}
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
	if err := s.bounded(1); err != nil {
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

// sweep deletes what a listing of everything has not shown, and what is no longer below a root because a folder above
// it has gone.
func (s *syncer) sweep(ctx context.Context) error {
	for _, id := range s.ids() {
		k, _ := s.stored(id)
		r, ok := recordOf(k)
		_, missing := s.missing[id]
		stays := !missing || ok && s.isKept(r.parents)
		if !missing && ok {
			_, stays = s.tree.place(r.parents)
			stays = stays || s.isUnplaced(r.parents)
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
