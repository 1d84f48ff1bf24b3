package teams

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
)

// recheck asks for the replies of recently active threads that this sync has not looked at yet.
func (c *channel) recheck(ctx context.Context) error {
	if c.cfg.recheckDays() == NoRecheck || c.now.IsZero() {
		return nil
	}
	recent := c.now.AddDate(0, 0, -c.cfg.recheckDays()).Unix()
	for id, of := range c.sync.All() {
		_, file := split(id)
		if _, shown := c.shown[id]; shown || file || of.Failed != source.None || source.MemoOf[thread](of).Active <= recent {
			continue
		}
		if err := c.recheckThread(ctx, id, false); err != nil {
			return err
		}
	}
	return nil
}

// Look looks for threads and attached files that have failed.
func (c *channel) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		thread, file := split(id)
		of, _ := s.Stored(id)
		f := source.MemoOf[attached](of)
		var err error
		if _, shown := c.shown[thread]; file && f.Link != "" {
			var goes bool
			if goes, err = c.goesWithThread(ctx, id); err == nil && !goes {
				err = c.updateFile(ctx, id, f, false, true)
			}
		} else if !shown {
			err = c.recheckThread(ctx, thread, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recheckThread reads a thread again where its replies have changed, or always where whole is set.
func (c *channel) recheckThread(ctx context.Context, id string, whole bool) error {
	root := graph.Message{ID: strings.TrimPrefix(id, "message/")}
	message := c.api.URL(c.path("/messages/"+graph.Segment(root.ID)), nil)
	replies, unread := c.moreReplies(ctx, c.replies(root.ID))
	if graph.IsGone(unread) {
		return c.goneThread(ctx, id)
	}
	if unread == nil && !whole {
		hash, err := repliesHash(ctx, replies)
		of, _ := c.sync.Stored(id)
		if err != nil || source.MemoOf[thread](of).Replies == hash {
			return err
		}
	}
	if err := c.api.Get(ctx, message, nil, &root); graph.IsGone(err) {
		return c.goneThread(ctx, id)
	} else if err != nil {
		return c.sync.FailAlone(ctx, fmt.Errorf("read a thread again: %w", err)) // it stays as it is stored
	}
	if unread != nil {
		return c.failThread(ctx, root, unread)
	}
	root.Replies, root.NextReplies = replies, ""
	return c.thread(ctx, root, false)
}

// replies is where the listing of a thread's replies begins.
func (c *channel) replies(root string) string {
	return c.api.URL(c.path("/messages/"+graph.Segment(root))+"/replies", url.Values{"$top": {"50"}})
}

// moreReplies follows the pages of a thread's replies, as far as a thread's text may go.
func (c *channel) moreReplies(ctx context.Context, link string) ([]graph.Message, error) {
	var all []graph.Message
	for size := 0; link != "" && size <= maxThreadBytes; {
		page, at, err := c.api.Messages(ctx, link)
		if err == nil {
			err = checkNext(c.api, "list replies", link, &page)
		}
		if err != nil {
			return nil, fmt.Errorf("list replies: %w", err)
		}
		c.setTime(at)
		all = append(all, page.Value...)
		for _, m := range page.Value {
			size += m.Weight()
		}
		link = page.Next
	}
	return all, nil
}

// goneThread marks a thread that does not exist now. Where an earlier sync did not find it either, it is lost with its attachments.
func (c *channel) goneThread(ctx context.Context, id string) error {
	lost, err := c.sync.MarkAway(ctx, source.Item{ID: id, Title: "Thread", MediaType: "text/plain"})
	if lost {
		for _, file := range c.filesIn(id) {
			c.sync.MarkLost(file)
		}
	}
	return err
}

// filesIn are the stored attachments of a thread.
func (c *channel) filesIn(thread string) []string { return slices.Collect(maps.Keys(c.files[thread])) }

// loseOrphans marks attachments as lost whose thread is not stored: the thread was lost, or a sync died between the two, or their
// deletion was given up.
func (c *channel) loseOrphans() error {
	if err := c.sync.Wait(); err != nil { // a thread may still be on its way
		return err
	}
	for id := range c.sync.All() {
		if _, file := split(id); file && c.isOrphan(id) {
			c.sync.MarkLost(id)
		}
	}
	return nil
}

// goesWithThread tells whether an attachment goes with its thread: being given, it would not be lost. A thread that was not there at
// the last sync is asked for first. updateFile asks for the thread of an attachment that could not be stored.
func (c *channel) goesWithThread(ctx context.Context, file string) (bool, error) {
	if of, _ := c.sync.Stored(file); of.Failed == source.NotStored {
		return false, nil
	}
	thread, _ := split(file)
	if of, _ := c.sync.Stored(thread); of.Failed == source.IsAway && !of.Fresh && !c.sync.Lost(thread) {
		if err := c.recheckThread(ctx, thread, true); err != nil {
			return false, err
		}
	}
	_, stored := c.sync.Stored(file)
	return !stored || c.isOrphan(file), nil
}

// isOrphan tells whether the thread of an attachment is lost, or not stored.
func (c *channel) isOrphan(file string) bool {
	thread, _ := split(file)
	_, stored := c.sync.Stored(thread)
	return !stored || c.sync.Lost(thread)
}
