package teams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/echomind/sync/services/connector/graph"
)

// changes are what has happened in the channel's library since the last sync.
type changes struct {
	// items are those of the attached files that have changed, or are gone.
	items map[string]struct{}
	// all says that folders have, or that the service does not know what has: every attached file is asked for.
	all bool
	// came says that a folder has come, or is another now.
	came bool
	// gone says that something is gone that may have been an attached file of which nothing is remembered.
	gone bool
	// next is where the changes after these go on. It becomes the state's when these are applied: a checkpoint
	// before would lose them.
	next string
}

// take takes a page. Whatever else lies in the channel's library is of no interest, and there may be any number of it.
func (c *changes) take(page []graph.Item, folder string, attached map[string]struct{}) {
	for _, item := range page {
		if item.Folder != nil && item.ID != folder {
			c.all, c.came = true, c.came || item.Deleted == nil
		}
		if _, is := attached[item.ID]; is {
			c.items[item.ID] = struct{}{}
		} else if item.Deleted != nil {
			// A deleted item lists little: it may have been a folder.
			c.gone, c.all = true, c.all || item.File == nil
		}
	}
}

// library finds the channel's folder in its library, and reads what has changed there. It comes before the messages:
// what changes after it is found by the next sync.
func (s *syncer) library(ctx context.Context) (changes, error) {
	none := changes{items: map[string]struct{}{}}
	if s.cfg.NoAttachments {
		s.state.Drive, s.state.Folder, s.state.Files = "", "", ""
		return none, nil
	}
	none.next = s.state.Files
	if s.state.Drive == "" || s.state.Away {
		if there, err := s.findFolder(ctx); err != nil || !there {
			none.all = s.state.Away
			return none, err
		}
		none.next = s.state.Files
	}
	latest := s.api.ItemDelta(s.state.Drive, s.state.Folder, 0, "latest")
	found, attached := none, s.attachedItems()
	first := s.state.Files == ""
	if found.next = s.state.Files; found.next == "" {
		// Nothing is known of what happened before the token that is asked for now.
		found.next, found.all = latest, true
	}
	for {
		page, err := s.api.Items(ctx, found.next)
		if _, resync := graph.Resync(err); resync && found.next != latest {
			found.next, found.all = latest, true
			continue
		}
		if graph.IsGone(err) {
			s.state.Away = true // for a moment, or for ever: the next sync looks for another
			return none, nil
		}
		if err != nil {
			return none, fmt.Errorf("list changed files: %w", err)
		}
		found.take(page.Value, s.state.Folder, attached)
		s.comesBack(page.Value, attached)
		next := page.Next
		if next == "" {
			next = page.Delta
		}
		if next == "" || page.Next == found.next {
			return none, errors.New("list changed files: the answer does not say how to go on")
		}
		if err := s.api.CheckLink(next); err != nil {
			return none, fmt.Errorf("list changed files: %w", err)
		}
		if found.next = next; page.Next == "" {
			break
		}
	}
	if s.state.Away || found.all {
		s.allComesBack(s.state.Away || found.came)
	}
	s.state.Away = false
	s.told = found.gone
	found.gone = found.gone || found.all && !first
	if found.all && len(s.attached) == 0 {
		found.all, s.state.Files = false, found.next // there is nothing that a checkpoint could lose
	}
	return found, nil
}

// findFolder finds the channel's folder, which is made with the channel's first file. Where it has come, or is in another library now,
// all messages are listed: their attachments may be in it.
func (s *syncer) findFolder(ctx context.Context) (there bool, err error) {
	var folder graph.Item
	err = s.api.Get(ctx, s.api.URL(s.channel("/filesFolder"), nil), nil, &folder)
	if graph.IsGone(err) {
		return false, nil
	}
	if err != nil {
		return false, graph.AsPermanent(fmt.Errorf("find the channel's files: %w", err),
			"the channel's files (no_attachments leaves them out)")
	}
	if folder.Parent.DriveID != s.state.Drive {
		s.listAgain()
	}
	if folder.Parent.DriveID != s.state.Drive || folder.ID != s.state.Folder {
		s.state.Drive, s.state.Folder, s.state.Files = folder.Parent.DriveID, folder.ID, ""
	}
	return true, nil
}

// attachedItems are the drive items of the stored attachments. What this sync stores beside these is read after the changes.
func (s *syncer) attachedItems() map[string]struct{} {
	items := map[string]struct{}{}
	for id, k := range s.known {
		if _, file := split(id); file && itemOf(k) != "" {
			items[itemOf(k)] = struct{}{}
		}
	}
	return items
}

// changed brings the attached files up to date that have changed.
func (s *syncer) changed(ctx context.Context, found changes) error {
	due, lost := map[string]string{}, map[string]struct{}{}
	s.mu.Lock()
	for id, k := range s.known {
		item := itemOf(k)
		if _, file := split(id); !file || item == "" {
			continue
		}
		if _, is := found.items[item]; is || found.all && k.VersionToken != "" { // what has failed is tried again with its thread
			due[id] = item
		}
	}
	s.mu.Unlock()
	for id, itemID := range due {
		item, err := s.api.Item(ctx, s.state.Drive, itemID)
		switch {
		case graph.IsGone(err) || err == nil && item.Deleted != nil:
			if _, told := found.items[itemID]; told {
				thread, _ := split(id)
				lost[thread] = struct{}{}
				err = s.lose(ctx, id, "")
			} else if k, _ := s.stored(id); k.VersionToken != "" {
				err = s.goneFile(ctx, id, "attachment", "")
			} else {
				continue // it could not be read before, and is looked for with its thread
			}
		case err != nil:
			if k, _ := s.stored(id); k.VersionToken == "" && !graph.EndsSync(err) && ctx.Err() == nil {
				continue // it could not be read before
			}
			err = s.unasked(ctx, id, graph.Item{ID: itemID, Name: "attachment"}, err)
		default:
			err = s.item(ctx, id, item)
		}
		if err != nil {
			return err
		}
	}
	// Their links may lead to others by now.
	for n, thread := range slices.Sorted(maps.Keys(lost)) {
		if _, there := s.stored(thread); n >= maxGone || !there {
			continue
		}
		if err := s.recheckThread(ctx, thread, true); err != nil {
			return err
		}
	}
	if s.state.Drive != "" {
		s.state.Files = found.next
	}
	return nil
}
