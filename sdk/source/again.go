package source

import (
	"context"
	"slices"
)

const (
	// mostAgain bounds how many items that failed a sync tries again.
	mostAgain = 20_000
	// growth is how many times as many are tried as at the sync before, where that has helped.
	growth = 4
)

// share is what a sync has tried again, as the next one remembers it. Whether what was tried again was stored is known to the next sync
// only: what a sync sends is stored, or refused, after it.
type share struct {
	// Tried is how many items were tried again, Left how many there were then.
	Tried int `json:"tried,omitempty"`
	Left  int `json:"left,omitempty"`
}

// of is the share of a sync that finds left items to be tried again. A sync tries least of them, so that files that cannot be
// read, and a quota that is full, cost no request for each item at every sync. Where at least half of what the last one has tried
// have gone from what is left, there are growth times as many of them.
func (last share) of(left, least int) share {
	most := least
	if last.Tried >= least && 2*(last.Left-left) >= last.Tried {
		most = min(growth*last.Tried, mostAgain)
	}
	return share{Tried: min(most, left), Left: left}
}

// chooseAgain chooses what a source that lists everything at each sync reads again of what could not be stored, by chance: a full quota must not
// cost everything each time. What has changed meanwhile is read in any case.
func (s *Sync) chooseAgain() {
	var notStored []string
	for id, e := range s.stored { // in no order
		if e.describe(s.opts.Reading).Failed == NotStored {
			notStored = append(notStored, id)
		}
	}
	s.state.NotStored = s.state.NotStored.of(len(notStored), s.opts.Again)
	s.again = make(map[string]struct{}, s.state.NotStored.Tried)
	for _, id := range notStored[:s.state.NotStored.Tried] {
		s.again[id] = struct{}{}
	}
}

func (s *Sync) readsAgain(id string) bool {
	_, is := s.again[id]
	return is
}

// tryAgain has a source look at items that failed before, and that this sync was not given; which ones is left to chance, so that all have
// their turn. Those that could not be stored have a share of their own: they may be very many.
func (s *Sync) tryAgain(ctx context.Context, src Looker, cursor any) error {
	var away, unread, notStored []string
	s.mu.Lock()
	for id, e := range s.stored { // in no order
		switch of := e.describe(s.opts.Reading); {
		case e.shown || e.fresh:
		case of.Failed == NotStored || of.Failed == Unknown:
			notStored = append(notStored, id)
		case of.Failed == IsAway:
			away = append(away, id)
		case of.Failed == Reading || of.Failed == Outdated:
			unread = append(unread, id)
		}
	}
	s.mu.Unlock()
	unread = inTurns(away, unread)
	s.state.Unread = s.state.Unread.of(len(unread), s.opts.Again)
	if len(away) > 0 {
		var err error
		if s.allowed, err = s.store.DeletionsAllowed(ctx); err != nil {
			return err
		}
	}
	if s.allowed { // who allows that they go does not mean a few of them
		s.state.Unread.Tried = max(s.state.Unread.Tried, min(len(unread), 2*len(away), mostAgain))
	}
	s.state.NotStored = s.state.NotStored.of(len(notStored), s.opts.Again)
	ids := slices.Concat(unread[:s.state.Unread.Tried], notStored[:s.state.NotStored.Tried])
	if len(ids) == 0 {
		return nil
	}
	if err := s.Checkpoint(ctx, cursor); err != nil {
		return err
	}
	return s.lookAt(ctx, src, ids)
}

// lookAtAll has a source look at all that cannot be read now, and that this sync was not given.
func (s *Sync) lookAtAll(ctx context.Context, src Looker) error {
	var ids []string
	for id, of := range s.All() {
		e, _ := s.entry(id)
		if (of.Failed == IsAway || of.Failed == Reading) && !e.shown && !e.fresh && len(ids) < mostAgain {
			ids = append(ids, id)
		}
	}
	return s.lookAt(ctx, src, ids)
}

func (s *Sync) lookAt(ctx context.Context, src Looker, ids []string) error {
	for batch := range slices.Chunk(ids, s.opts.Again) {
		if err := src.Look(ctx, s, batch); err != nil {
			return err
		}
		if err := s.Wait(); err != nil {
			return err
		}
		s.countUnseen(batch)
	}
	return nil
}

// inTurns takes from two lists by turns, so that neither holds up the other.
func inTurns(a, b []string) []string {
	var all []string
	for i := range max(len(a), len(b)) {
		all = append(append(all, a[min(i, len(a)):min(i+1, len(a))]...), b[min(i, len(b)):min(i+1, len(b))]...)
	}
	return all
}

// countUnseen counts what was looked at and stays as it is.
func (s *Sync) countUnseen(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if e, is := s.stored[id]; is && !e.shown && !e.fresh {
			s.unchanged.Add(1)
		}
	}
}
