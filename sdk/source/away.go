package source

import (
	"context"
	"maps"
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
	return s.away(ctx, c)
}

// away takes an item that is not there.
func (s *Sync) away(ctx context.Context, c candidate) (lost bool, err error) {
	e, known := s.entry(c.ID)
	if !known {
		return false, nil
	}
	now := since(IsAway, s.state.Place.Round)
	if kind := e.missingAs(); kind != None {
		lost = e.ContentHash != since(kind, s.state.Place.Round) || s.allowed && !e.fresh
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

// listed says that a place lists an item that is not there when it is read: it counts as Reading, until Look says that it is not there.
const listed Failure = "listed"

// since is stored as the hash of what was first not there in a round.
func since(kind Failure, round int) string { return failed + string(kind) + " " + strconv.Itoa(round) }

// missingAs tells whether an item was not there: IsAway, or listed.
func (e entry) missingAs() Failure {
	for _, kind := range []Failure{IsAway, listed} {
		if e.VersionToken == "" && strings.HasPrefix(e.ContentHash, failed+string(kind)+" ") {
			return kind
		}
	}
	return None
}

// notThere takes an item that the place has listed, and that is not there.
func (s *Sync) notThere(ctx context.Context, c candidate) error {
	if e, _ := s.entry(c.ID); e.missingAs() == listed {
		s.stands(c.ID, true)
		return nil
	}
	return s.sendFailure(ctx, c.document(), since(listed, s.state.Place.Round), awayText)
}

// removeLost removes what is lost. A place that is away shows itself a few items at a time: so where what cannot be read now would make it suspiciously
// much, look has all of that looked for before; nil looks for nothing.
func (s *Sync) removeLost(ctx context.Context, cursor any, look func(context.Context) error) error {
	if len(s.lost) == 0 {
		return nil
	}
	of := s.losses()
	if look != nil && suspicious(s.removed+of.lost+of.away+of.unread, s.expects) {
		if err := look(ctx); err != nil {
			return err
		}
		of = s.losses()
	}
	if of.lost > 0 {
		if err := guard(ctx, s.store, s.opts.Connector, s.removed+of.lost+of.away, s.expects, of.left == 0); err != nil {
			return err
		}
	}
	if err := s.Checkpoint(ctx, cursor); err != nil { // it knows how what is removed may come back
		return err
	}
	s.removed += of.lost
	for _, id := range slices.Sorted(maps.Keys(s.lost)) {
		if err := s.removeOne(ctx, s.lost[id]); err != nil {
			return err
		}
	}
	clear(s.lost)
	return nil
}

// losses counts what may be found: what is lost, what was not there when it was asked for, what cannot be read now, and what is left.
type losses struct{ lost, away, unread, left int }

func (s *Sync) losses() (n losses) {
	for id, of := range s.All() {
		switch _, lost := s.lost[id]; {
		case !of.Found:
		case lost:
			n.lost++
		case of.Failed == IsAway:
			n.away++
		case of.Failed == Reading:
			n.unread++
			n.left++
		default:
			n.left++
		}
	}
	return n
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
		if e.missingAs() != None {
			return true
		}
	}
	return false
}
