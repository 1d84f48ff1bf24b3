package teams

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/again"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

// threads brings a page of threads up to date, and returns when all of it is sent. Their attachments are read several
// at a time.
func (s *syncer) threads(ctx context.Context, roots []graph.Message) error {
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(s.opts.Workers)
	err := func() error {
		for i, root := range roots {
			if root.ID == "" || slices.ContainsFunc(roots[i+1:], func(m graph.Message) bool { return m.ID == root.ID }) {
				continue // a message may be listed more than once: the last is right
			}
			files, err := s.thread(grouped, root)
			if err != nil {
				return err
			}
			for _, f := range files {
				group.Go(func() error { return caught.Do(func() error { return s.file(grouped, f) }) })
			}
		}
		return nil
	}()
	if waited := group.Wait(); waited != nil {
		return waited
	}
	return err
}

// thread brings one thread up to date, and returns the attachments that are to be read.
func (s *syncer) thread(ctx context.Context, root graph.Message) ([]attachment, error) {
	id := threadID(root.ID)
	s.result.Threads++
	s.shown[id] = struct{}{}
	delete(s.missing, id)
	if root.Removed != nil {
		return nil, s.removeThread(ctx, id)
	}
	if root.CutReplies {
		root.NextReplies = s.replies(root.ID)
	}
	if root.NextReplies != "" {
		more, err := s.moreReplies(ctx, root.NextReplies)
		if err != nil {
			return nil, s.failThread(ctx, id, root, err)
		}
		root.Replies = append(root.Replies, more...)
	}
	slices.SortStableFunc(root.Replies, func(a, b graph.Message) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	visible := visibleOf(root)
	if len(visible) == 0 {
		return nil, s.removeThread(ctx, id)
	}
	title, sections, err := read(ctx, visible)
	if err != nil {
		return nil, err
	}
	replies, err := repliesHash(ctx, root.Replies)
	if err != nil {
		return nil, err
	}
	hash := textHash(title, sections)
	now := thread{active: activity(root), replies: replies, text: hash[:16]}
	doc := worker.Document{
		SourceID: id, Title: title, URL: root.WebURL, MediaType: "text/plain", ContentHash: hash, VersionToken: now.String(),
	}
	stored, known := s.stored(id)
	switch {
	case known && stored.VersionToken != "" && stored.ContentHash == hash && stored.VersionToken == doc.VersionToken:
		s.thereAsStored(id)
	case known && stored.VersionToken != "" && stored.ContentHash == hash && !s.isFresh(id):
		s.touched.Add(1)
		s.remember(doc)
		if err := s.sink.Touch(ctx, doc); err != nil {
			return nil, err
		}
	default:
		doc.Chunks = chunk.Split(sections, s.opts.Chunk)
		if err := s.send(ctx, doc); err != nil {
			return nil, err
		}
	}
	return s.filesOf(ctx, id, visible)
}

// alone takes an error of asking for one thread, and returns nil where the sync goes on without it.
func (s *syncer) alone(ctx context.Context, err error) error {
	return s.silent.Alone(ctx, err, graph.EndsSync, func(ctx context.Context) error {
		_, _, err := s.api.Messages(ctx, s.api.URL(s.channel("/messages"), url.Values{"$top": {"1"}}))
		return err
	})
}

// failThread fails a thread whose replies cannot be read. What was stored of it stays, and it is tried again.
func (s *syncer) failThread(ctx context.Context, id string, root graph.Message, why error) error {
	f := failure{kind: ofReading, hash: graph.Short(graph.Reason(why))}
	if k, stored := s.stored(id); stored && k.VersionToken == "" && k.ContentHash == f.String() {
		s.thereAsStored(id)
		return nil
	}
	if err := s.alone(ctx, why); err != nil {
		return err
	}
	said, err := messageText(ctx, root)
	if err != nil {
		return err
	}
	return s.send(ctx, worker.Document{
		SourceID: id, Title: titleOf(root, said), URL: root.WebURL, MediaType: "text/plain", ContentHash: f.String(),
		Err: "its replies cannot be read: " + graph.Reason(why),
	})
}

// goneThread removes a thread that was not there at an earlier sync either. Any other stays until it is not there again: only the delta
// and a whole listing say for certain that one is gone.
func (s *syncer) goneThread(ctx context.Context, id string) error {
	f := failure{kind: ofReading, hash: goneHash}
	if k, _ := s.stored(id); k.VersionToken == "" && again.Goes(k.ContentHash == f.String(), s.isFresh(id)) {
		s.notThere = append(s.notThere, id)
		return nil
	}
	return s.send(ctx, worker.Document{
		SourceID: id, Title: "Thread", MediaType: "text/plain", ContentHash: f.String(), Err: reasonGone,
	})
}

// removeNotThere removes the threads that two syncs have not found. Where they are many, all are kept, and the next sync lists all messages:
// only known threads are asked for, so that none would ever come back.
func (s *syncer) removeNotThere(ctx context.Context) error {
	if len(s.notThere) > trouble.Most {
		s.unchanged.Add(int64(len(s.notThere)))
		s.listAgain()
		return nil
	}
	for _, id := range s.notThere {
		if err := s.removeThread(ctx, id); err != nil {
			return err
		}
	}
	s.state.Listed = true
	return nil
}

// thereAsStored: nothing has to be written.
func (s *syncer) thereAsStored(id string) {
	s.unchanged.Add(1)
	if s.missing != nil { // in a listing
		s.stand = append(s.stand, id)
	}
}

// visibleOf are the messages of a thread that people see: no events of the channel's, nothing deleted, nothing that a
// policy hides.
func visibleOf(root graph.Message) []graph.Message {
	var visible []graph.Message
	for _, m := range append([]graph.Message{root}, root.Replies...) {
		if seen(m) {
			visible = append(visible, m)
		}
	}
	return visible
}

func seen(m graph.Message) bool {
	hidden := m.Policy != nil && strings.Contains(strings.ToLower(m.Policy.Action), "blockaccess")
	return m.MessageType == "message" && m.Deleted == nil && m.Removed == nil && !hidden
}

// activity is when somebody last wrote or deleted something in a thread. Reactions are none.
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

// repliesHash tells whether the replies of a thread have changed. No two of their texts are held at once.
func repliesHash(ctx context.Context, replies []graph.Message) (string, error) {
	sorted := slices.SortedFunc(slices.Values(replies), func(a, b graph.Message) int { return strings.Compare(a.ID, b.ID) })
	h := sha256.New()
	for _, m := range sorted {
		if !seen(m) {
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

// removeThread removes a thread with its attachments.
func (s *syncer) removeThread(ctx context.Context, id string) error {
	for _, file := range s.attachments(id) {
		if err := s.remove(ctx, file); err != nil {
			return err
		}
	}
	return s.remove(ctx, id)
}
