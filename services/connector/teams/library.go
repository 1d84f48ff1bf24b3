package teams

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
)

// changes are the changes of the channel's library since the last sync that concern attachments. The library may hold any number of
// other files.
type changes struct {
	// byItem and byName are the attachments that are stored, by their items and by the names that their links end with.
	byItem, byName map[string][]string
	// due are attachments that have changed, or may be back, or whose name another file has now; told are the items of attachments
	// that are gone.
	due, told map[string]struct{}
	// all says that folders have changed, or that the service does not know the changes: every attached file is looked for. came
	// says that files may have appeared so, and not only gone: attachments without a file are looked for, too.
	all, came bool
	// next is where later changes continue; empty while the library is away. It becomes part of the state when these changes are
	// applied: an earlier checkpoint would lose them.
	next string
}

// library finds the channel's folder in its library, and reads what has changed there.
func (c *channel) library(ctx context.Context) (*changes, error) {
	found, away := c.attachments(), &changes{all: c.state.Away}
	if c.cfg.NoAttachments {
		return away, nil
	}
	if c.state.Drive == "" || c.state.Away {
		if there, err := c.findFolder(ctx); err != nil || !there {
			return away, err
		}
	}
	latest := c.api.ItemDelta(c.state.Drive, c.state.Folder, 0, "latest")
	found.came = c.state.Away
	if found.next = c.state.Files; found.next == "" {
		// Nothing is known of what happened before the token that is asked for now.
		found.next, found.came = latest, true
	}
	for {
		page, err := c.api.Items(ctx, found.next)
		if _, resync := graph.Resync(err); resync && found.next != latest {
			found.next, found.came = latest, true
			continue
		}
		if graph.IsGone(err) {
			c.state.Away = true // the next sync looks for another library
			return away, nil
		}
		if err == nil {
			err = checkNext(c.api, "list changed files", found.next, &page)
		}
		if err != nil {
			return nil, fmt.Errorf("list changed files: %w", err)
		}
		found.take(page.Value, c.state.Folder)
		if found.next = page.Next + page.Delta; found.next == "" {
			return nil, errors.New("list changed files: the answer does not say how to go on")
		}
		if page.Next == "" {
			break
		}
	}
	found.all = found.all || found.came
	if len(found.byName) == 0 {
		c.state.Files = found.next // a checkpoint cannot lose changes here
	}
	return found, nil
}

// attachments are the attachments that are stored now. Attachments that this sync stores later are read after the changes.
func (c *channel) attachments() *changes {
	found := &changes{byItem: map[string][]string{}, byName: map[string][]string{}, due: map[string]struct{}{}, told: map[string]struct{}{}}
	for id, of := range c.sync.All() {
		a := source.MemoOf[attached](of)
		if a.Link == "" {
			continue
		}
		name := strings.ToLower(a.name())
		found.byName[name] = append(found.byName[name], id)
		if a.Item != "" {
			found.byItem[a.Item] = append(found.byItem[a.Item], id)
		}
		if a.Look {
			found.due[id] = struct{}{}
		}
	}
	return found
}

// take adds a page of the library's changes.
func (f *changes) take(page []graph.Item, folder string) {
	for _, item := range page {
		ids, attached := f.byItem[item.ID]
		switch {
		case item.Folder != nil && item.ID != folder:
			f.all, f.came = true, f.came || item.Deleted == nil
		case item.Deleted == nil:
			delete(f.told, item.ID)
			ids = append(ids[:len(ids):len(ids)], f.byName[strings.ToLower(item.Name)]...)
		case attached:
			f.told[item.ID] = struct{}{}
		case item.File == nil:
			f.all = true // a deleted item lists little: it may have been a folder
		}
		for _, id := range ids {
			f.due[id] = struct{}{}
		}
	}
}

// findFolder finds the channel's folder, which is created with the channel's first file. Where it has appeared, or is in another
// library now, all messages are listed: their attachments may be in it.
func (c *channel) findFolder(ctx context.Context) (there bool, err error) {
	var folder graph.Item
	err = c.api.Get(ctx, c.api.URL(c.path("/filesFolder"), nil), nil, &folder)
	if graph.IsGone(err) || err == nil && folder.Deleted != nil {
		return false, nil
	}
	if err != nil {
		return false, graph.AsPermanent(fmt.Errorf("find the channel's files: %w", err),
			"the channel's files (no_attachments leaves them out)")
	}
	if folder.Parent.DriveID != c.state.Drive {
		c.listAgain()
	}
	if folder.Parent.DriveID != c.state.Drive || folder.ID != c.state.Folder {
		c.state.Drive, c.state.Folder, c.state.Files = folder.Parent.DriveID, folder.ID, ""
	}
	return true, nil
}

// applyChanges looks for the attached files that have changed, except those that go with their threads. Such a thread may be found
// again, so the next sync reads these changes once more.
func (c *channel) applyChanges(ctx context.Context, found *changes) error {
	complete := true
	for id, of := range c.sync.All() {
		a := source.MemoOf[attached](of)
		_, due := found.due[id]
		if a.Link == "" || of.Fresh || !due && (!found.all || a.Gone && !found.came) {
			continue
		}
		goes, err := c.goesWithThread(ctx, id)
		if err != nil {
			return err
		}
		if goes {
			complete = false
			continue
		}
		_, told := found.told[a.Item]
		if err := c.updateFile(ctx, id, a, told, due); err != nil {
			return err
		}
	}
	if complete && found.next != "" {
		c.state.Files, c.state.Away = found.next, false
	}
	return nil
}
