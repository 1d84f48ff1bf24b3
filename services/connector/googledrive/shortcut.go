package googledrive

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/echomind/sync/sdk/source"
)

const (
	// maxLooks bounds how many targets a sync looks at whose shortcuts have not changed. They are chosen at random, so that all
	// have their turn.
	maxLooks = 200
	// looksAtOnce bounds how many targets are held at once.
	looksAtOnce = 100

	targetGone   = "what the shortcut leads to is gone, or is not shared with the connected account"
	targetFolder = "a shortcut to a folder is not followed; make a connector of that folder to have its content"
	// targetElsewhere is the reason of a shortcut whose target was not looked at: its readers may have no right to know anything
	// about it.
	targetElsewhere = "what the shortcut leads to is not among what this connector syncs, and its readers may have no right to read it; " +
		"make a connector of it, or one that its owner reads alone (scope user)"
	targetShortcut = "a shortcut to a shortcut is not followed"
	// notLookedAt is the reason of a failed shortcut until its target is looked at again.
	notLookedAt = "what the shortcut leads to has not been looked at yet"
)

// giveShortcut gives a listed or changed shortcut to the engine. Its text is known only after everything is listed, because its
// target may be synced itself. Until then the stored text stays.
func (s *syncer) giveShortcut(ctx context.Context, f item, parents []string) error {
	m := memo{Kind: kindShortcut, Parents: parents, Target: validOr(f.Shortcut.Target)}
	key := validOr(f.Shortcut.TargetKey)
	if name := f.title(); len(name)+len(f.Link)+len(key) <= maxOwn && utf8.ValidString(name+f.Link) {
		m.Name, m.Link, m.Key = name, f.Link, key
	}
	if !s.targets[m.Target] {
		s.targets[m.Target] = false
	}
	of, _ := s.sync.Stored(f.ID)
	same := of.Memo != nil && memoOf(of).Target == m.Target
	switch {
	case same && (of.Failed != source.None || of.Version != "" && of.Fresh):
		m.Waits = true
		return s.sync.Fail(ctx, newItem(f, m), source.Unreadable{Reason: notLookedAt})
	case same && of.Version != "":
		it := newItem(f, m)
		it.Version = of.Version
		it.Read = func(context.Context) (source.Content, error) {
			return source.Content{}, &source.Unreadable{Reason: notLookedAt}
		}
		return s.sync.Item(ctx, it)
	}
	return s.sync.Item(ctx, newItem(f, m))
}

// shortcuts decides which shortcut is stored with the text of its target: for each target that is not synced itself, the first one;
// the others have no text. Where others than the owner read the documents, no shortcut has such a text. Of the targets without a
// change at most looks are looked at. A shortcut whose deletion may have been given up is left to Look.
func (s *syncer) shortcuts(ctx context.Context, looks int) error {
	if err := s.sync.Wait(); err != nil {
		return err
	}
	byTarget, there := map[string][]string{}, s.tree.without(s.lost)
	for id, of := range s.sync.All() {
		if m := memoOf(of); m.Kind == kindShortcut && there.holdsItem(id, m) && of.Failed != source.NotStored && of.Failed != source.IsAway {
			byTarget[m.Target] = append(byTarget[m.Target], id)
		}
	}
	var due []question
	for target, ids := range byTarget {
		slices.Sort(ids)
		_, inside := s.sync.Stored(target)
		elsewhere := !inside && !s.opts.OwnerAlone && !s.tree.roots[target]
		for i, id := range ids {
			of, _ := s.sync.Stored(id)
			m := memoOf(of)
			follow := i == 0 && !inside && !elsewhere
			done := of.Failed != source.None && !m.Waits || of.Version != ""
			switch {
			case follow && done && !s.targets[target]:
				if looks--; looks < 0 {
					continue
				}
			case !follow && !elsewhere && of.Failed == source.None && of.Version == "":
				continue // it has no text, and needs none
			case elsewhere && of.Failed == source.InContent && !m.Waits:
				continue // it has failed for this reason already
			}
			f, there, err := s.shortcutItem(ctx, id, m)
			switch {
			case err != nil:
				return err
			case !there:
				continue
			}
			m.Waits = false
			it := newItem(f, m)
			switch {
			case follow:
				due = append(due, question{id: target, key: f.Shortcut.TargetKey, of: it})
				continue
			case elsewhere:
				it.Unread = targetElsewhere
			}
			if err := s.sync.Item(ctx, it); err != nil {
				return err
			}
		}
	}
	for batch := range slices.Chunk(due, looksAtOnce) {
		s.ask(ctx, batch)
		for _, q := range batch {
			s.targets[q.id], q.item.key = false, q.key
			if err := s.storeTarget(ctx, q.of, q.item, q.err); err != nil {
				return err
			}
		}
	}
	return nil
}

// shortcutItem is a shortcut as its memo describes it. Where the name is too long for the memo it is asked for, for at most
// maxLooks shortcuts.
func (s *syncer) shortcutItem(ctx context.Context, id string, m memo) (f item, there bool, err error) {
	if m.Name != "" {
		f = item{ID: id, Name: m.Name, MimeType: shortcutType, Link: m.Link}
		f.Shortcut.TargetKey = m.Key
		return f, true, nil
	}
	if s.namesFetched++; s.namesFetched > maxLooks {
		return f, false, nil
	}
	f, err = s.api.item(ctx, id, "")
	if err != nil {
		return f, false, s.sync.FailAlone(ctx, err)
	}
	f.ID = id
	return f, !f.Trashed, nil
}

// storeTarget stores a shortcut with the text of its target.
func (s *syncer) storeTarget(ctx context.Context, it source.Item, target item, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && endsSync(err):
		return fmt.Errorf("look at what a shortcut leads to: %w", err)
	case isGone(err) || isRefused(err) || err == nil && target.Trashed:
		return s.sync.Fail(ctx, it, source.Unreadable{Reason: targetGone})
	case err != nil:
		reason, _ := documentReason(err)
		return s.sync.Fail(ctx, it, source.Unreadable{Reason: reason, Trouble: true})
	case target.isFolder():
		it.Unread = targetFolder
	case target.isShortcut():
		it.Unread = targetShortcut
	default:
		as := it
		s.setContent(&it, target, func(item) source.Item { return as }, func(bool) error { return &source.Unreadable{Reason: targetGone} })
	}
	return s.sync.Item(ctx, it)
}
