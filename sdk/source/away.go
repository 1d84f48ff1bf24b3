package source

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

// awayText is said of what is not there when it is asked for, and that nothing else has said to be gone.
const awayText = "it is not there now; it is looked for again by the next sync"

// Away says that an item is not there, and that nothing else says it is gone. A place answers so for a moment, too: only a list of changes
// and a listing of everything say for certain that something is gone. So what is stored stays, marked as away, and is looked for by
// the next sync (Looker). Where one that follows a completed sync does not find it either, it is lost, as by Lose. Memo may be left out: it
// stays as it is. An item that has one is not removed then: it stays as one without text, with this memo.
func (s *Sync) Away(ctx context.Context, it Item) (lost bool, err error) {
	c, err := asCandidate(it)
	if err != nil {
		return false, err
	}
	if err := s.idle(ctx, it.ID); err != nil {
		return false, err
	}
	return s.away(ctx, c, false)
}

// away takes an item that is not there. given says that the place has listed it in this sync: then it is looked for again also where
// nothing is stored of it, and never lost.
func (s *Sync) away(ctx context.Context, c candidate, given bool) (lost bool, err error) {
	e, known := s.entry(c.ID)
	if !known && !given {
		return false, nil
	}
	now := awaySince(s.state.Place.Round)
	if e.describe(s.opts.Reading).Failed == IsAway {
		lost = !given && e.ContentHash != now
		s.shows(c.ID)
		s.stands(c.ID, !lost)
		if lost {
			s.mu.Lock()
			s.lost[c.ID] = c.Item
			s.mu.Unlock()
		}
		return lost, nil
	}
	doc := c.document()
	if c.Memo == nil && e.Memo != nil {
		doc.Memo = e.Memo
	}
	return false, s.sendFailure(ctx, doc, now, awayText)
}

// Lose says that an item is gone, though no list of changes and no listing says so of it. It is removed once List, or Look, has ended, unless this
// sync was given it, or it is said that it stays; false: it was given already. A checkpoint does not remember it. Where what is lost is suspiciously
// much nothing is removed, and the sync fails (ErrUnasked) until the owner allows it.
func (s *Sync) Lose(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.stored[id]
	if e.shown {
		return false
	}
	if known {
		s.lost[id] = Item{ID: id}
	}
	return true
}

// Stay takes back what Lose, or Away, has said of items.
func (s *Sync) Stay(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.lost, id)
	}
}

// awaySince is stored as the hash of what was first not there in a round.
func awaySince(round int) string { return failed + string(IsAway) + " " + strconv.Itoa(round) }

// removeLost removes what is lost. What is away, or cannot be read now, counts with it: a place that is away shows itself a few items at a time.
func (s *Sync) removeLost(ctx context.Context) error {
	if len(s.lost) == 0 {
		return nil
	}
	gone, away, left := 0, 0, 0
	for id, of := range s.All() {
		switch _, lost := s.lost[id]; {
		case !of.Found:
		case lost:
			gone++
		case of.Failed == IsAway || of.Failed == Reading:
			away++
		default:
			left++
		}
	}
	if gone > 0 {
		stored := cmp.Or(s.expects, gone+away+left) // of a first sync nothing is expected
		if err := guard(ctx, s.store, s.opts.Connector, s.removed+gone+away, stored, left == 0); err != nil {
			return err
		}
	}
	s.removed += gone
	ids := make([]string, 0, len(s.lost))
	for id := range s.lost {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := s.removeOne(ctx, s.lost[id]); err != nil {
			return err
		}
	}
	clear(s.lost)
	return nil
}

func (s *Sync) removeOne(ctx context.Context, it Item) error {
	if it.Memo == nil {
		return s.remove(ctx, it.ID)
	}
	it.Read, it.Unread = nil, ""
	c, err := asCandidate(it)
	if err != nil {
		return err
	}
	return s.hide(ctx, c, noText)
}

// anyAway tells whether something that is stored was not there.
func (s *Sync) anyAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.stored {
		if e.VersionToken == "" && strings.HasPrefix(e.ContentHash, failed+string(IsAway)) {
			return true
		}
	}
	return false
}
