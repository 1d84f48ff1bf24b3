package source

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/echomind/sync/sdk/worker"
)

// awayText is the reason of an item that is not there when it is asked for, and that nothing has reported as gone.
const awayText = "it is not there now; it is looked for again by the next sync"

// MarkAway says that an item is not there, and that nothing else says it is gone. A place may answer so for a moment; only a list
// of changes and a listing of everything say for certain that something is gone. So the stored document stays, marked as away, and
// the next sync looks for the item again (Looker). Where a sync after a completed one does not find it either, it is lost, as by
// MarkLost. Memo may be left out: it stays as it is. An item with a memo is not removed: it stays without text, with this memo.
func (s *Sync) MarkAway(ctx context.Context, it Item) (lost bool, err error) {
	c, err := newCandidate(it)
	if err != nil {
		return false, err
	}
	if err := s.awaitReading(ctx, it.ID); err != nil {
		return false, err
	}
	return s.markAway(ctx, c)
}

// markAway is MarkAway for a candidate.
func (s *Sync) markAway(ctx context.Context, c candidate) (lost bool, err error) {
	e, known := s.entry(c.ID)
	if !known {
		return false, nil
	}
	now := awaySince(IsAway, s.state.Place.Round)
	if kind, since := e.away(); kind != None {
		lost = since < s.state.Place.Since || s.allowed && since < s.state.Place.Round && !e.fresh
		s.markShown(c.ID)
		s.markUnchanged(c.ID, !lost)
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

// MarkLost says that an item is gone, though no list of changes and no listing says so. It is removed once List, or Look, has
// ended, unless this sync is given it, or UnmarkLost names it. It returns false where the item was given already. A checkpoint does
// not remember it. Where suspiciously many items are lost nothing is removed, and the sync fails (ErrDeletionsRefused) until the
// owner allows it.
func (s *Sync) MarkLost(id string) bool {
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

// Lost tells whether an item is lost so far, by MarkLost or MarkAway.
func (s *Sync) Lost(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, lost := s.lost[id]
	return lost
}

// UnmarkLost takes back MarkLost, or MarkAway, for items.
func (s *Sync) UnmarkLost(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.lost, id)
	}
}

// listed is the failure of an item that a place lists and that is not there when it is read: it counts as Reading, until Look says
// that it is not there.
const listed Failure = "listed"

// awaySince is the hash of an item that was first not there in a round.
func awaySince(kind Failure, round int) string {
	return failed + string(kind) + " " + strconv.Itoa(round)
}

// away tells whether an item was not there: IsAway, or listed; else None. round is the one in which it was first not there.
func (e entry) away() (kind Failure, round int) {
	for _, kind := range []Failure{IsAway, listed} {
		if since, is := strings.CutPrefix(e.ContentHash, failed+string(kind)+" "); is && e.VersionToken == "" {
			round, _ = strconv.Atoi(since)
			return kind, round
		}
	}
	return None, 0
}

func (e entry) isAway() bool {
	kind, _ := e.away()
	return kind != None
}

// failAway stores that the place has listed an item, and that it is not there.
func (s *Sync) failAway(ctx context.Context, c candidate) error {
	e, _ := s.entry(c.ID)
	if kind, _ := e.away(); kind == listed {
		s.markUnchanged(c.ID, true)
		return nil
	}
	return s.sendFailure(ctx, c.document(), awaySince(listed, s.state.Place.Round), awayText)
}

// removeLost removes the lost items. A place that is away may show itself a few items at a time. So where the items that failed before
// would make it suspiciously many, look first looks for those; nil looks for nothing.
func (s *Sync) removeLost(ctx context.Context, cursor any, look func(context.Context) error) error {
	if len(s.lost) == 0 {
		return nil
	}
	of := s.losses()
	if look != nil && suspicious(s.removed+of.lost+of.away+of.unread, s.findable) {
		if err := look(ctx); err != nil {
			return err
		}
		of = s.losses()
	}
	if of.lost > 0 {
		if err := checkDeletions(ctx, s.store, s.opts.Connector, s.removed, of.lost+of.away+s.likelyAway, s.findable, of.left == 0); err != nil {
			if errors.Is(err, ErrDeletionsRefused) {
				err = cmp.Or(s.remembersRefusal(ctx), worker.KeepSent(err))
			}
			return err
		}
	}
	if err := s.Checkpoint(ctx, cursor); err != nil { // this checkpoint knows how a removed item comes back
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

// losses counts the items that a search may find: lost, away, to be tried again, and left.
type losses struct{ lost, away, unread, left int }

func (s *Sync) losses() (n losses) {
	for id, of := range s.All() {
		switch _, lost := s.lost[id]; {
		case !of.Found:
		case lost:
			n.lost++
		case of.Failed == IsAway:
			n.away++
		case isRetriable(of.Failed):
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
	c, err := newCandidate(it)
	if err != nil {
		return err
	}
	return s.storeWithoutContent(ctx, c, noText)
}

// hasAway tells whether a stored item was not there.
func (s *Sync) hasAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.stored {
		if e.isAway() {
			return true
		}
	}
	return false
}
