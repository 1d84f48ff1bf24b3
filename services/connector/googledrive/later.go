package googledrive

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/sdk/source"
)

// maxLater bounds how many items the cursor remembers for the next sync.
const maxLater = 100

// checkLater has the next sync look at a file that is not stored; it returns false where no more can be remembered.
func (s *syncer) checkLater(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cursor.Later) >= maxLater {
		return false
	}
	s.cursor.Later = append(s.cursor.Later, id)
	return true
}

// question is a request for one item, with its answer.
type question struct {
	id, key string
	item    item
	err     error
	// of is the shortcut that leads to it.
	of source.Item
}

// ask asks several questions concurrently.
func (s *syncer) ask(ctx context.Context, questions []question) {
	var group errgroup.Group
	group.SetLimit(source.DefaultWorkers)
	for i := range questions {
		group.Go(func() error {
			q := &questions[i]
			if q.id == "" {
				q.err = errVanished
				return nil
			}
			q.err = caught.Do(func() (err error) {
				q.item, err = s.api.item(ctx, q.id, q.key)
				return err
			})
			return nil
		})
	}
	_ = group.Wait()
}

// Look asks for items that failed before. A shortcut that is known to exist is handled together with all shortcuts.
func (s *syncer) Look(ctx context.Context, sync *source.Sync, ids []string) error {
	var due []string
	for _, id := range ids {
		of, _ := sync.Stored(id)
		if memoOf(of).Kind != kindShortcut || of.Failed == source.NotStored || of.Failed == source.IsAway {
			due = append(due, id)
		}
	}
	if err := s.look(ctx, due); err != nil {
		return err
	}
	if err := s.listQueued(ctx, notTrashed); err != nil {
		return err
	}
	if s.detached {
		if err := s.sweep(ctx); err != nil {
			return err
		}
	}
	return s.shortcuts(ctx, 0)
}

// checkDue looks at the items that earlier syncs have left. Until then checkpoints keep them for the next run.
func (s *syncer) checkDue(ctx context.Context) error {
	s.mu.Lock()
	s.cursor.Later = slices.DeleteFunc(s.cursor.Later, func(id string) bool { return slices.Contains(s.toCheck, id) })
	s.mu.Unlock()
	return s.look(ctx, s.toCheck)
}

// look looks at items as if they had changed.
func (s *syncer) look(ctx context.Context, ids []string) error {
	questions := make([]question, len(ids))
	for i, id := range ids {
		questions[i].id = id
	}
	s.ask(ctx, questions)
	var changes []change
	for _, q := range questions {
		var err error
		switch {
		case s.tree.roots[q.id]:
			err = s.sync.Remove(ctx, q.id)
		case q.err == nil:
			changes = append(changes, change{FileID: q.id, File: &q.item})
		case isGone(q.err):
			_, err = s.markAway(ctx, q.id)
		case isRefused(q.err): // the stored item stays
		default:
			err = s.sync.FailAlone(ctx, q.err)
			if _, stored := s.sync.Stored(q.id); !stored {
				s.checkLater(q.id)
			}
		}
		if err != nil {
			return err
		}
	}
	return s.applyPage(ctx, "", changes)
}

// markAway marks an item that does not exist now. An item that an earlier sync has not found either is lost, with everything below
// it, and the next sync looks for it once more: no change reports it when it is back.
func (s *syncer) markAway(ctx context.Context, id string) (lost bool, err error) {
	if lost, err = s.sync.MarkAway(ctx, source.Item{ID: id}); lost {
		s.checkLater(id)
		delete(s.toList, id)
		s.lost[id], s.detached = true, true
	}
	return lost, err
}

// noteNotListed notes a folder that does not exist while its contents are listed: the next sync looks at it. A listing of
// everything lists it once more at its end, and fails where the folder is missing again: its contents are removed only when the
// next try does not find it either, and are stored again once it is found.
func (s *syncer) noteNotListed(ctx context.Context, drive, id string) error {
	lost, err := s.markAway(ctx, id)
	switch {
	case lost:
		return err
	case err != nil || !s.listing || s.ending && slices.Contains(s.toCheck, id):
		return err
	case s.ending:
		return fmt.Errorf("what is in the folder %q cannot be listed: it is not there, though nothing says that it is gone; it is tried again", id)
	}
	s.missed[id] = drive
	return nil
}
