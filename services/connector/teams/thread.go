package teams

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// thread is the memo of a thread.
type thread struct {
	// Active is when somebody last wrote or deleted something in it, in seconds.
	Active int64 `json:"a,omitempty"`
	// Replies is the hash of its replies.
	Replies string `json:"r,omitempty"`
}

// threads gives a page of threads to the engine.
func (c *channel) threads(ctx context.Context, roots []graph.Message) error {
	for _, root := range answer.LastOf(roots, func(m graph.Message) string { return m.ID }) {
		if err := c.thread(ctx, root, true); err != nil {
			return err
		}
	}
	return nil
}

// thread gives a thread and its attachments to the engine. Outside a listing the attachments come first: once the text is stored, a
// run that continues from this one is not given the thread again.
func (c *channel) thread(ctx context.Context, root graph.Message, listed bool) error {
	id := "message/" + root.ID
	c.result.Threads++
	c.shown[id] = struct{}{}
	if root.Removed != nil {
		return c.removeThread(ctx, id)
	}
	if root.CutReplies {
		root.NextReplies = c.replies(root.ID)
	}
	if root.NextReplies != "" {
		more, err := c.moreReplies(ctx, root.NextReplies)
		if err != nil {
			return c.failThread(ctx, root, err)
		}
		root.Replies = append(root.Replies, more...)
	}
	slices.SortStableFunc(root.Replies, func(a, b graph.Message) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	visible := visibleOf(root)
	if len(visible) == 0 {
		return c.removeThread(ctx, id)
	}
	title, sections, err := threadText(ctx, visible)
	if err != nil {
		return err
	}
	replies, err := repliesHash(ctx, root.Replies)
	if err != nil {
		return err
	}
	c.sync.UnmarkLost(c.filesIn(id)...) // a thread that is found again keeps its attachments
	if err := c.updateAttachments(ctx, id, visible); err != nil {
		return err
	}
	if !listed {
		if err := c.sync.Wait(); err != nil {
			return err
		}
	}
	text := source.Content{Sections: sections, Hash: textHash(title, sections), AtHand: true}
	last := sections[len(sections)-1]
	return c.sync.Item(ctx, source.Item{
		ID: id, Title: title, URL: root.WebURL, MediaType: "text/plain", Version: text.Hash, Bytes: last.Start + int64(len(last.Text)),
		Memo: thread{Active: activity(root).Unix(), Replies: replies},
		Read: func(context.Context) (source.Content, error) { return text, nil },
	})
}

// failThread fails a thread whose replies cannot be read. Its stored text stays, and it is tried again.
func (c *channel) failThread(ctx context.Context, root graph.Message, why error) error {
	if ctx.Err() != nil || graph.EndsSync(why) {
		return cmp.Or(ctx.Err(), why)
	}
	said, err := messageText(ctx, root)
	if err != nil {
		return err
	}
	c.sync.UnmarkLost(c.filesIn("message/" + root.ID)...)
	return c.sync.Fail(ctx, source.Item{
		ID: "message/" + root.ID, Title: titleOf(root, said), URL: root.WebURL, MediaType: "text/plain", Memo: thread{},
	}, source.Unreadable{Reason: "its replies cannot be read: " + graph.Reason(why), Trouble: true})
}

// removeThread removes a thread with its attachments.
func (c *channel) removeThread(ctx context.Context, id string) error {
	for file := range c.files[id] {
		if err := c.sync.Remove(ctx, file); err != nil {
			return err
		}
	}
	delete(c.files, id)
	return c.sync.Remove(ctx, id)
}

// visibleOf are the messages of a thread that people see, without events of the channel, deleted messages, and messages that a
// policy hides.
func visibleOf(root graph.Message) []graph.Message {
	var visible []graph.Message
	for _, m := range append([]graph.Message{root}, root.Replies...) {
		if isVisible(m) {
			visible = append(visible, m)
		}
	}
	return visible
}

func isVisible(m graph.Message) bool {
	hidden := m.Policy != nil && strings.Contains(strings.ToLower(m.Policy.Action), "blockaccess")
	return m.MessageType == "message" && m.Deleted == nil && m.Removed == nil && !hidden
}

// activity is when somebody last wrote or deleted something in a thread. Reactions do not count.
func activity(root graph.Message) time.Time {
	last := root.Created
	for _, m := range append([]graph.Message{root}, root.Replies...) {
		for _, at := range []*time.Time{&m.Created, m.Edited, m.Deleted} {
			if at != nil && at.After(last) {
				last = *at
			}
		}
	}
	return last
}

// repliesHash is equal as long as the replies of a thread have not changed. It never holds two of their texts at once.
func repliesHash(ctx context.Context, replies []graph.Message) (string, error) {
	sorted := slices.SortedFunc(slices.Values(replies), func(a, b graph.Message) int { return strings.Compare(a.ID, b.ID) })
	h := sha256.New()
	for _, m := range sorted {
		if !isVisible(m) {
			continue
		}
		text, err := messageText(ctx, m)
		if err != nil {
			return "", err
		}
		for _, part := range []string{m.ID, m.From.Name(), text} {
			_, _ = io.WriteString(h, part+"\x00")
		}
		for _, a := range m.Attachments {
			_, _ = io.WriteString(h, a.ContentURL+"\x00")
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12]), nil
}
