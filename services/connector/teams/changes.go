package teams

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/again"
)

// delta reads what has changed since the last sync, or since the listing began.
func (s *syncer) delta(ctx context.Context) error {
	if s.state.Delta == "" {
		query := url.Values{"$top": {strconv.Itoa(s.opts.PageSize)}, "$expand": {"replies"}}
		if s.state.Since != "" {
			query.Set("$filter", "lastModifiedDateTime gt "+s.state.Since)
		}
		s.state.Delta = s.api.URL(s.channel("/messages/delta"), query)
	}
	continued := s.state.Paging
	for {
		page, at, err := s.api.Messages(ctx, s.state.Delta)
		if err != nil {
			return fmt.Errorf("list changed messages: %w", err)
		}
		s.result.Pages++
		s.tick(at)
		if err := s.threads(ctx, page.Value); err != nil {
			return err
		}
		next := page.Next
		if next == "" {
			next = page.Delta
		}
		if next == "" || page.Next == s.state.Delta {
			return errors.New("list changed messages: the answer does not say how to go on")
		}
		if err := s.api.CheckLink(next); err != nil {
			return fmt.Errorf("list changed messages: %w", err)
		}
		s.state.Delta, s.state.Paging = next, page.Next != ""
		switch {
		case page.Next != "":
		case continued:
			continued = false // the round shows the channel as of when it began, which may be long ago
			continue
		default:
			return nil
		}
		if err := s.checkpoint(ctx); err != nil {
			return err
		}
	}
}

// failedThreads are the threads that have failed, or an attachment of theirs, and may not fail now: as many as are tried again. Those
// with an attachment that may have gone from the library are all among them.
func (s *syncer) failedThreads(gone bool) map[string]struct{} {
	all, unplaced := map[string]struct{}{}, map[string]struct{}{}
	for id, k := range s.known {
		f, failed := parseFailure(k)
		thread, file := split(id)
		if k.VersionToken == "" && (!failed || f.again(s.opts.Extract.Version())) {
			all[thread] = struct{}{}
		}
		if file && itemOf(k) == "" {
			unplaced[thread] = struct{}{}
		}
	}
	s.state.Failed = s.state.Failed.Of(len(all), maxAgain)
	failed := map[string]struct{}{}
	for thread := range all { // in no order
		if len(failed) == s.state.Failed.Tried {
			break
		}
		failed[thread] = struct{}{}
	}
	for thread := range unplaced {
		if !gone || len(failed) >= again.Most {
			break
		}
		if _, tried := failed[thread]; !tried {
			failed[thread], s.placing[thread] = struct{}{}, struct{}{}
		}
	}
	return failed
}

// recheck asks for the replies of threads that were active lately, and for the threads whose attachments could not be
// read, unless this sync has looked at them already.
func (s *syncer) recheck(ctx context.Context, failed map[string]struct{}) error {
	if len(failed) > 0 {
		if err := s.checkpoint(ctx); err != nil {
			return err
		}
	}
	recent := s.now.AddDate(0, 0, -s.cfg.recheckDays())
	if s.cfg.recheckDays() == NoRecheck || s.now.IsZero() {
		recent = time.Now().AddDate(100, 0, 0)
	}
	var due []string
	s.mu.Lock()
	for id, k := range s.known {
		t, ok := parseThread(k.VersionToken)
		_, again := failed[id]
		if _, shown := s.shown[id]; !shown && (ok && t.active.After(recent) || again) {
			due = append(due, id)
		}
	}
	s.mu.Unlock()
	for _, id := range due {
		_, again := failed[id]
		if err := s.recheckThread(ctx, id, again); err != nil {
			return err
		}
	}
	return s.removeOrphans(ctx)
}

func (s *syncer) recheckThread(ctx context.Context, id string, whole bool) error {
	message := s.channel("/messages/" + graph.Segment(strings.TrimPrefix(id, "message/")))
	replies, err := s.moreReplies(ctx, s.replies(strings.TrimPrefix(id, "message/")))
	if graph.IsGone(err) {
		return s.goneThread(ctx, id)
	}
	if err != nil {
		var root graph.Message
		if s.api.Get(ctx, s.api.URL(message, nil), nil, &root) != nil {
			return s.alone(ctx, fmt.Errorf("read a thread again: %w", err)) // it stays as it is stored
		}
		return s.failThread(ctx, id, root, err)
	}
	hash, err := repliesHash(ctx, replies)
	if err != nil {
		return err
	}
	k, _ := s.stored(id)
	if t, ok := parseThread(k.VersionToken); ok && t.replies == hash && !whole {
		s.unchanged.Add(1)
		return nil
	}
	var root graph.Message
	if err := s.api.Get(ctx, s.api.URL(message, nil), nil, &root); graph.IsGone(err) {
		return s.goneThread(ctx, id)
	} else if err != nil {
		return s.alone(ctx, fmt.Errorf("read a thread again: %w", err))
	}
	root.Replies, root.NextReplies = replies, ""
	return s.threads(ctx, []graph.Message{root})
}

// replies is where the listing of a thread's replies begins.
func (s *syncer) replies(root string) string {
	return s.api.URL(s.channel("/messages/"+graph.Segment(root))+"/replies", url.Values{"$top": {"50"}})
}

// moreReplies follows the pages of a thread's replies, as far as a thread's text may go.
func (s *syncer) moreReplies(ctx context.Context, link string) ([]graph.Message, error) {
	var all []graph.Message
	for size := 0; link != "" && size <= maxThreadBytes; {
		if err := s.api.CheckLink(link); err != nil {
			return nil, fmt.Errorf("list replies: %w", err)
		}
		page, at, err := s.api.Messages(ctx, link)
		if err != nil {
			return nil, fmt.Errorf("list replies: %w", err)
		}
		s.tick(at)
		all = append(all, page.Value...)
		for _, m := range page.Value {
			size += m.Weight()
		}
		if page.Next == link {
			return nil, errors.New("list replies: a page leads to itself")
		}
		link = page.Next
	}
	return all, nil
}

// thread is what is remembered with one: as its version token, "t1 activity replies text".
type thread struct {
	active        time.Time
	replies, text string
}

const threadVersion = "t1"

func (t thread) String() string {
	return threadVersion + " " + strconv.FormatInt(t.active.Unix(), 10) + " " + t.replies + " " + t.text
}

func parseThread(token string) (thread, bool) {
	words := strings.Split(token, " ")
	if len(words) != 4 || words[0] != threadVersion {
		return thread{}, false
	}
	at, err := strconv.ParseInt(words[1], 10, 64)
	return thread{active: time.Unix(at, 0), replies: words[2], text: words[3]}, err == nil
}
