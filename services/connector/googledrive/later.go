package googledrive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/sdk/source"
)

// maxLater bounds what the next sync is to look at: it has its place in the cursor.
const maxLater = 100

var errTooMuchLater = errors.New("more could not be asked for than the next sync can be left with; everything since the last checkpoint is tried again")

// later has the next sync look at an item.
func (s *syncer) later(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.Contains(s.at.Later, id):
	case len(s.at.Later) >= maxLater:
		return errTooMuchLater
	default:
		s.at.Later = append(s.at.Later, id)
	}
	return nil
}

// forget takes items off what the next sync is to look at.
func (s *syncer) forget(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at.Later = slices.DeleteFunc(s.at.Later, func(id string) bool { return slices.Contains(ids, id) })
}

// question asks for an item.
type question struct {
	id, key string
	item    item
	err     error
	// of is the shortcut that leads to it.
	of source.Item
}

// ask asks several questions at the same time.
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

// Look asks for items that failed before. Those shortcuts that are known to be there have their turn with all shortcuts.
func (s *syncer) Look(ctx context.Context, sync *source.Sync, ids []string) error {
	var due []string
	for _, id := range ids {
		of, _ := sync.Stored(id)
		if memoOf(of).Kind != aShortcut || of.Failed == source.NotStored || of.Failed == source.IsAway {
			due = append(due, id)
		}
	}
	if err := s.look(ctx, due, false); err != nil {
		return err
	}
	if err := s.listCome(ctx); err != nil {
		return err
	}
	if s.loose {
		if err := s.sweep(ctx); err != nil {
			return err
		}
	}
	return s.shortcuts(ctx, 0)
}

// look looks at items as if they had changed. What an earlier sync has left (later) is gone where it is not there now either.
func (s *syncer) look(ctx context.Context, ids []string, later bool) error {
	questions := make([]question, len(ids))
	for i, id := range ids {
		questions[i].id = id
	}
	s.ask(ctx, questions)
	var changes []change
	for _, q := range questions {
		switch {
		case s.tree.roots[q.id] && later:
			s.come[q.id] = q.item.DriveID
		case s.tree.roots[q.id]:
			if err := s.sync.Remove(ctx, q.id); err != nil {
				return err
			}
		case q.err == nil:
			changes = append(changes, change{FileID: q.id, File: &q.item})
		case later && (isGone(q.err) || isRefused(q.err)):
			changes = append(changes, change{FileID: q.id, Removed: true})
		case isGone(q.err):
			removed, err := s.sync.Away(ctx, source.Item{ID: q.id})
			if err != nil {
				return err
			}
			if removed {
				if err := s.gone(ctx, q.id); err != nil {
					return err
				}
			}
		case isRefused(q.err): // it stays as it is
		default:
			if err := s.sync.Alone(ctx, q.err); err != nil {
				return err
			}
			if later {
				if err := s.later(q.id); err != nil {
					return err
				}
			}
		}
	}
	return s.changesPage(ctx, "", changes)
}

// notListed takes note of a folder that is not there when what is in it is listed: the next sync looks at it. A sync that lists everything
// lists it once more at its end, and fails where it is not there again. Where the next try does not find it either, what is in it goes.
func (s *syncer) notListed(drive, id string) error {
	switch {
	case s.at.Listing != nil:
		s.come[id] = drive
	case s.listing && !slices.Contains(s.due, id):
		return fmt.Errorf("what is in the folder %q cannot be listed: it is not there, though nothing says that it is gone; it is tried again", id)
	}
	return s.later(id)
}
