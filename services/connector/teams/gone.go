package teams

import (
	"context"
	"slices"
	"strings"

	"github.com/echomind/sync/services/connector/graph"
)

// maxGone bounds the attached files that are remembered as gone, maxGoneBytes the ids of one: they have their place in the state.
const (
	maxGone      = 100
	maxGoneBytes = 100
)

// gone is an attached file that was stored and is not in the library any more. Its thread does not change when it comes back: a
// permission is granted again, or it leaves the recycle bin.
type gone struct {
	Item   string `json:"i"`
	Thread string `json:"t"`
	// Back says that the library has shown it again, or may have.
	Back bool `json:"b,omitempty"`
}

// lose removes an attached file that is gone, and remembers it. The oldest make room; where very many go in one sync, all messages are
// listed once something comes.
func (s *syncer) lose(ctx context.Context, id string) error {
	k, _ := s.stored(id)
	thread, _ := split(id)
	if item := itemOf(k); item != "" && len(item)+len(thread) <= maxGoneBytes {
		s.mu.Lock()
		if len(s.state.Gone) >= maxGone {
			s.state.Gone = slices.Clone(s.state.Gone[1:])
		}
		s.state.Gone = append(s.state.Gone, gone{Item: item, Thread: strings.TrimPrefix(thread, "message/")})
		if s.lost++; s.lost > maxGone/2 {
			s.state.GoneMore = true
		}
		s.mu.Unlock()
	}
	return s.remove(ctx, id)
}

// comesBack takes a page of the library's changes.
func (s *syncer) comesBack(page []graph.Item, attached map[string]struct{}) {
	for _, item := range page {
		if _, is := attached[item.ID]; is || item.Deleted != nil {
			continue
		}
		for i := range s.state.Gone {
			if s.state.Gone[i].Item == item.ID {
				s.state.Gone[i].Back = true
			}
		}
		if s.state.GoneMore && item.File != nil {
			s.state.GoneMore = false
			s.listAgain()
		}
	}
}

// allComesBack is where folders have changed, of whose files the library says nothing, or where the library itself was away.
func (s *syncer) allComesBack(wasAway bool) {
	s.state.Gone = slices.Clone(s.state.Gone)
	for i := range s.state.Gone {
		s.state.Gone[i].Back = true
	}
	if wasAway && s.state.GoneMore {
		s.state.GoneMore = false
		s.listAgain()
	}
}

// backIn adds the threads whose files may be back.
func (s *syncer) backIn(threads map[string]struct{}) {
	for _, g := range s.state.Gone {
		if g.Back {
			threads[threadID(g.Thread)] = struct{}{}
		}
	}
}

// stillGone are those that no thread has stored again.
func (s *syncer) stillGone() []gone {
	stored := s.attachedItems()
	return slices.DeleteFunc(slices.Clone(s.state.Gone), func(g gone) bool {
		_, is := stored[g.Item]
		_, there := s.known[threadID(g.Thread)]
		return is || !there
	})
}
