package googledrive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
)

const (
	// maxLooks bounds how many targets are looked at in a sync that did nothing about their shortcuts; which ones is
	// left to chance, so that all have their turn.
	maxLooks = 200

	targetGone   = "what the shortcut leads to is gone, or is not shared with the connected account"
	targetFolder = "a shortcut to a folder is not followed; make a connector of that folder to have its content"
	// targetElsewhere is said without a look at the target: what can be told of it is not the readers' either.
	targetElsewhere = "what the shortcut leads to is not among what this connector syncs, and its readers may have no right to read it; " +
		"make a connector of it, or one that its owner reads alone (scope user)"
	targetShortcut = "a shortcut to a shortcut is not followed"
	// notLookedAt is said of one that has text, between its report and the look at its target.
	notLookedAt = "what the shortcut leads to has not been looked at yet"
)

// sight stores a shortcut that was listed, without text if it has none. What it stands for is settled when all is listed: its target
// may be among what is synced, and is then there already.
func (s *syncer) sight(ctx context.Context, e entry) error {
	e.kind, e.target = aShortcut, e.item.Shortcut.Target
	if !validID(e.target) {
		e.target = ""
	}
	e = s.holdShortcut(e)
	stored, is := s.stored(e.id)
	old, ok := recordOf(stored)
	switch {
	case is && !ok && !s.anew, old.failed() && old.target == e.target:
		return s.await(ctx, e)
	case !ok || old.failed() || old.target != e.target || old.content == "":
		return s.without(ctx, e, e.record(""))
	}
	now := e.record(old.content)
	if old.samePlace(now) {
		s.standsAsStored(e.id, false)
		return nil
	}
	return s.touch(ctx, e, now, stored.ContentHash)
}

// await stores of a shortcut what is needed to go on with it. What it failed with, or was refused, it may have a text beside: that
// stays until there is another, because what failed keeps the text that it had.
func (s *syncer) await(ctx context.Context, e entry) error {
	doc := e.document()
	doc.ContentHash, doc.Err = s.failure(e, inReading, notLookedAt).failure(), notLookedAt
	return s.send(ctx, doc)
}

func (r record) awaits() bool { return r.cause == inReading && r.hash == short("", notLookedAt) }

// holdShortcut keeps of a shortcut what settling it needs. One for which there is no room is asked for again.
func (s *syncer) holdShortcut(e entry) entry {
	f := item{ID: e.item.ID, Name: e.item.Name, MimeType: shortcutType, Link: e.item.Link}
	if validID(e.item.Shortcut.TargetKey) {
		f.Shortcut.TargetKey = e.item.Shortcut.TargetKey
	}
	e.item, e.source = &f, &f
	s.mu.Lock()
	before := s.shortcuts[e.id]
	s.mu.Unlock()
	if before.item != nil {
		s.gives(before.item.weight())
	}
	kept := e
	if !s.takes(f.weight()) {
		kept.item, kept.source = nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shortcuts[e.id], s.isTarget[e.target] = kept, true
	return e
}

// settleShortcuts gives each target that is not synced itself to one shortcut: that one is stored with its text, any
// other without. Where others than the owner read, there is no such text.
func (s *syncer) settleShortcuts(ctx context.Context) error {
	byTarget := map[string][]entry{}
	for _, e := range s.shortcuts {
		byTarget[e.target] = append(byTarget[e.target], e)
	}
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(s.opts.Workers)
	err := func() error {
		looks := 0
		for target, entries := range byTarget {
			if grouped.Err() != nil {
				return nil
			}
			slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.id, b.id) })
			_, inside := s.stored(target)
			elsewhere := !inside && !s.opts.OwnerAlone && !s.tree.roots[target]
			for i, e := range entries {
				if elsewhere {
					if err := s.settleElsewhere(grouped, e); err != nil {
						return err
					}
					continue
				}
				if i > 0 || inside {
					if err := s.settleWithout(grouped, e); err != nil {
						return err
					}
					continue
				}
				if s.settled(e.id) && !s.told(target) {
					if looks++; looks > maxLooks {
						continue
					}
				}
				group.Go(func() error { return caught.Do(func() error { return s.settleTarget(grouped, e) }) })
			}
		}
		return nil
	}()
	if waited := group.Wait(); waited != nil {
		return waited
	}
	return err
}

// settled tells whether a shortcut is stored with its target's text, or with why it has none.
func (s *syncer) settled(id string) bool {
	stored, _ := s.stored(id)
	r, ok := recordOf(stored)
	return ok && !r.awaits() && (r.failed() || r.content != "")
}

func (s *syncer) told(target string) bool {
	_, is := s.targets[target]
	return is
}

// settleWithout stores a shortcut without text.
func (s *syncer) settleWithout(ctx context.Context, e entry) error {
	stored, _ := s.stored(e.id)
	if r, ok := recordOf(stored); ok && !r.failed() && r.content == "" {
		s.unchanged.Add(1)
		return nil
	}
	e, there, err := s.withItem(ctx, e)
	if err != nil || !there {
		return err
	}
	return s.without(ctx, e, e.record(""))
}

// settleElsewhere fails a shortcut that leads out of what the connector syncs. Everybody who may write there can put one, also
// to what the connected account may read and the connector's readers may not.
func (s *syncer) settleElsewhere(ctx context.Context, e entry) error {
	stored, _ := s.stored(e.id)
	if stored.VersionToken == "" && stored.ContentHash == s.failure(e, inReading, targetElsewhere).failure() {
		s.standsAsStored(e.id, true)
		return nil
	}
	e, there, err := s.withItem(ctx, e)
	if err != nil || !there {
		return err
	}
	return s.fail(ctx, e, inReading, targetElsewhere)
}

// settleTarget stores a shortcut with the text of its target.
func (s *syncer) settleTarget(ctx context.Context, e entry) error {
	target, err := s.targetOf(ctx, e)
	why, reason := inReading, ""
	switch {
	case err != nil && endsSync(err):
		return fmt.Errorf("look at what a shortcut leads to: %w", err)
	case ctx.Err() != nil:
		return ctx.Err()
	case isGone(err) || isRefused(err) || err == nil && target.Trashed:
		reason = targetGone
	case err != nil:
		reason, _ = ofDocument(err)
	case target.isFolder():
		why, reason = inContent, targetFolder
	case target.isShortcut():
		why, reason = inContent, targetShortcut
	}
	e.source = &target
	stored, _ := s.stored(e.id)
	old, _ := recordOf(stored)
	var stands bool
	switch {
	case reason != "":
		stands = stored.VersionToken == "" && stored.ContentHash == s.failure(e, why, reason).failure()
	case old.failed():
		stands = stored.ContentHash == s.failure(e, inContent, "").failure()
	default:
		stands = old.content == target.content() && s.unreadable(target) == ""
	}
	if stands {
		s.standsAsStored(e.id, true)
		return nil
	}
	e, there, err := s.withItem(ctx, e)
	if err != nil || !there {
		return err
	}
	if reason != "" {
		return s.fail(ctx, e, why, reason)
	}
	return s.file(ctx, e)
}

func (s *syncer) targetOf(ctx context.Context, e entry) (item, error) {
	if t := s.targets[e.target]; t.ID != "" {
		return t, nil
	}
	key := ""
	if e.item != nil {
		key = e.item.Shortcut.TargetKey
	}
	if e.target == "" {
		return item{Trashed: true}, nil
	}
	t, err := s.api.item(ctx, e.target, key)
	if e.item == nil && isRefused(err) { // the key that opens it is the shortcut's to say
		own, asked := s.api.item(ctx, e.id, "")
		if key = own.Shortcut.TargetKey; asked == nil && validID(key) {
			t, err = s.api.item(ctx, e.target, key)
		}
	}
	t.key = key
	return t, err
}

// withItem asks for a shortcut that this sync has not seen, but only remembers. One that may not be asked for stays as it is stored, and
// is asked for by the next sync; beyond maxLooks of these, others are not asked for either.
func (s *syncer) withItem(ctx context.Context, e entry) (entry, bool, error) {
	if e.item != nil {
		return e, true, nil
	}
	if s.unasked.Load() >= maxLooks {
		return e, false, nil
	}
	f, err := s.api.item(ctx, e.id, "")
	switch {
	case isGone(err) || err == nil && f.Trashed:
		return e, false, s.remove(ctx, e.id)
	case err != nil:
		s.unasked.Add(1)
		if err := s.alone(ctx, err); err != nil {
			return e, false, fmt.Errorf("look at a shortcut: %w", err)
		}
		return e, false, nil
	}
	e.item = &f
	if e.source == nil {
		e.source = &f
	}
	return e, true, nil
}
