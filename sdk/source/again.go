package source

import (
	"context"
	"slices"
)

const (
	// maxRetried bounds how many failed items one sync tries again.
	maxRetried = 20_000
	// retryGrowth is the factor by which a sync tries more items than the sync before, where that has helped.
	retryGrowth = 4
	// fewer is the try from which on an owner's permission is for fewer items.
	fewer = 3
)

// retries is what a sync has tried again, as the next sync remembers it. Only the next sync knows whether that was stored: what a
// sync sends is stored, or refused, after it.
type retries struct {
	// Tried is how many items were tried again, Left how many there were then.
	Tried int `json:"tried,omitempty"`
	Left  int `json:"left,omitempty"`
	// Allowed is how many tries an owner's permission has chosen Tried for, since a sync has completed, and nothing has gone from what is left. It
	// is counted up to fewer, so that the state of syncs that come no further stays as it is.
	Allowed int `json:"allowed,omitempty"`
}

// next returns how many of left failed items the next sync tries again. It tries least of them, so that unreadable files and a full
// quota do not cost a request for each item at every sync. Where at least half of the last tries have gone from what is left, it
// tries retryGrowth times as many.
func (last retries) next(left, least int) retries {
	most := least
	if last.Tried >= least && 2*(last.Left-left) >= last.Tried {
		most = min(retryGrowth*last.Tried, maxRetried)
	}
	return retries{Tried: min(most, left), Left: left}
}

// allowed tries all, or, where two tries of so many have not come to their end, fewer: a place may not answer for all of them.
func (now retries) allowed(last retries, all int) retries {
	now.Allowed = 1
	if last.Allowed > 0 && now.Left >= last.Left {
		now.Allowed = min(last.Allowed+1, fewer)
	}
	if now.Allowed == fewer {
		all = last.Tried / retryGrowth
	}
	now.Tried = min(max(now.Tried, all), now.Left)
	return now
}

// chooseRetries chooses, at random, the items that could not be stored and are read again, for a source that lists everything at
// each sync: a full quota must not cost a whole reading each time. Changed items are read in any case.
func (s *Sync) chooseRetries() {
	var notStored []string
	for id, e := range s.stored { // in no order
		if e.describe(s.opts.Reading).Failed == NotStored {
			notStored = append(notStored, id)
		}
	}
	s.state.NotStored = s.state.NotStored.next(len(notStored), s.opts.Again)
	s.retried = make(map[string]struct{}, s.state.NotStored.Tried)
	for _, id := range notStored[:s.state.NotStored.Tried] {
		s.retried[id] = struct{}{}
	}
}

func (s *Sync) isRetried(id string) bool {
	_, is := s.retried[id]
	return is
}

// retryFailed has a source look at items that failed before and that this sync was not given. They are chosen at random, so that
// all have their turn. Items that could not be stored are counted apart, because they may be very many.
func (s *Sync) retryFailed(ctx context.Context, src Looker, cursor any) error {
	var away, unread, notStored []string
	s.mu.Lock()
	for id, e := range s.stored { // in no order
		switch of := e.describe(s.opts.Reading); {
		case e.shown || e.fresh:
		case of.Failed == NotStored || of.Failed == Unknown:
			notStored = append(notStored, id)
		case e.isAway():
			away = append(away, id)
		case of.Failed == Reading || of.Failed == Outdated:
			unread = append(unread, id)
		}
	}
	s.mu.Unlock()
	unread = interleave(away, unread)
	last := s.state.Unread
	s.state.Unread = last.next(len(unread), s.opts.Again)
	if len(away) > 0 {
		if err := s.askAllowed(ctx); err != nil {
			return err
		}
	}
	if s.allowed { // an owner who allows deletions allows all of them
		s.state.Unread = s.state.Unread.allowed(last, min(2*len(away), maxRetried))
	}
	s.state.NotStored = s.state.NotStored.next(len(notStored), s.opts.Again)
	ids := slices.Concat(unread[:s.state.Unread.Tried], notStored[:s.state.NotStored.Tried])
	if len(ids) == 0 {
		return nil
	}
	if err := s.Checkpoint(ctx, cursor); err != nil {
		return err
	}
	return s.lookAt(ctx, src, ids)
}

// askAllowed asks whether the owner allows many deletions.
func (s *Sync) askAllowed(ctx context.Context) (err error) {
	s.allowed, err = s.store.DeletionsAllowed(ctx)
	return err
}

// lookAtAll has a source look at items that failed before, that a search may find, and that this sync was not given: at a sample of those that
// are away, and at a sample of the others. Where some are not as they were, it looks at all of their kind; where the others are more than
// maxRetried it estimates from those that it has looked at how many of the rest are not there. A sync whose owner allows deletions need not know.
func (s *Sync) lookAtAll(ctx context.Context, src Looker) error {
	if err := s.askAllowed(ctx); err != nil || s.allowed {
		return err
	}
	var away, unread []string
	for id, of := range s.All() { // in no order
		e, _ := s.entry(id)
		switch {
		case !of.Found || e.shown || e.fresh:
		case of.Failed == IsAway:
			away = append(away, id)
		case isRetriable(of.Failed):
			unread = append(unread, id)
		}
	}
	if _, _, err := s.lookAtSample(ctx, src, away, func(gone, looked int) bool { return gone < looked }); err != nil {
		return err
	}
	looked, gone, err := s.lookAtSample(ctx, src, unread, func(gone, _ int) bool { return gone > 0 })
	if s.likelyAway = 0; gone > 0 {
		s.likelyAway = (gone*(len(unread)-looked) + looked - 1) / looked
	}
	return err
}

// lookAtSample looks at some of ids, and at up to maxRetried where more says so of them. It counts those that it has looked at and those of them that are not there.
func (s *Sync) lookAtSample(ctx context.Context, src Looker, ids []string, more func(gone, looked int) bool) (looked, gone int, err error) {
	looked = min(len(ids), s.opts.Again)
	if err := s.lookAt(ctx, src, ids[:looked]); err != nil {
		return 0, 0, err
	}
	if gone = s.gone(ids[:looked]); !more(gone, looked) {
		return looked, gone, nil
	}
	all := min(len(ids), maxRetried)
	if err := s.lookAt(ctx, src, ids[looked:all]); err != nil {
		return 0, 0, err
	}
	return all, s.gone(ids[:all]), nil
}

// gone counts the items that are not there.
func (s *Sync) gone(ids []string) (n int) {
	for _, id := range ids {
		if of, is := s.Stored(id); !is || of.Failed == IsAway || s.Lost(id) {
			n++
		}
	}
	return n
}

// isRetriable tells whether an item that failed so is tried again though nothing says that it has changed.
func isRetriable(f Failure) bool { return f == Reading || f == Outdated || f == NotStored }

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

// interleave merges two lists by turns, so that neither delays the other.
func interleave(a, b []string) []string {
	var all []string
	for i := range max(len(a), len(b)) {
		all = append(append(all, a[min(i, len(a)):min(i+1, len(a))]...), b[min(i, len(b)):min(i+1, len(b))]...)
	}
	return all
}

// countUnseen counts the items that were looked at and stay as they are.
func (s *Sync) countUnseen(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if e, is := s.stored[id]; is && !e.shown && !e.fresh {
			s.unchanged.Add(1)
		}
	}
}
