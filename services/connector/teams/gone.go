package teams

import (
	"cmp"
	"context"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/echomind/sync/services/connector/graph"
)

// maxGone bounds the attached files that are remembered as gone, maxGoneBytes the ids of one: they have their place in the state.
const (
	maxGone      = 100
	maxGoneBytes = 100
)

// gone is an attached file that is not in the library. Its thread does not change when it comes back: a permission is granted again, it
// leaves the recycle bin, or another is uploaded under its name.
type gone struct {
	Item   string `json:"i,omitempty"`
	Thread string `json:"t"`
	// File and Name are hashes of the document's id and of the name that its link ends with.
	File string `json:"f,omitempty"`
	Name string `json:"n,omitempty"`
	// Back says that it is there again, or may be.
	Back bool `json:"b,omitempty"`
	// now: this sync has found that it is not there.
	now bool
}

func goneName(name string) string { return graph.Short(strings.ToLower(name))[:8] }

// lose removes an attached file that is gone, and remembers it; link is empty where it is not known. One that was never stored is looked
// for again by the next sync. The oldest make room; where very many go, all messages are listed once something comes.
func (s *syncer) lose(ctx context.Context, id, link string) error {
	k, stored := s.stored(id)
	thread, _ := split(id)
	one := gone{Item: itemOf(k), Thread: strings.TrimPrefix(thread, "message/"), File: graph.Short(id)[:12], Back: !stored, now: true}
	if link != "" {
		if name, err := url.PathUnescape(path.Base(link)); err == nil {
			one.Name = goneName(name)
		}
	}
	if len(one.Item)+len(one.Thread) <= maxGoneBytes {
		s.mu.Lock()
		s.noteGone(one, stored)
		s.mu.Unlock()
	}
	return s.remove(ctx, id)
}

func (s *syncer) noteGone(one gone, stored bool) {
	at := slices.IndexFunc(s.state.Gone, func(g gone) bool {
		return g.File == one.File || g.File == "" && g.Item == one.Item && g.Thread == one.Thread
	})
	s.state.Gone = slices.Clone(s.state.Gone)
	switch {
	case at >= 0:
		had := s.state.Gone[at]
		one.Item, one.Name, one.Back = cmp.Or(one.Item, had.Item), cmp.Or(one.Name, had.Name), false
		s.state.Gone[at] = one
	case len(s.state.Gone) < maxGone:
		s.state.Gone = append(s.state.Gone, one)
	case stored:
		s.state.Gone, s.state.GoneMore = append(s.state.Gone[1:], one), true
	}
	if stored {
		if s.lost++; s.lost > maxGone/2 {
			s.state.GoneMore = true
		}
	}
}

// comesBack takes a page of the library's changes.
func (s *syncer) comesBack(page []graph.Item, attached map[string]struct{}) {
	for _, item := range page {
		if _, is := attached[item.ID]; is || item.Deleted != nil {
			continue
		}
		for i := range s.state.Gone {
			if g := s.state.Gone[i]; g.Item == item.ID || g.Name != "" && g.Name == goneName(item.Name) {
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
func (s *syncer) allComesBack(came bool) {
	s.state.Gone = slices.Clone(s.state.Gone)
	for i := range s.state.Gone {
		s.state.Gone[i].Back = true
	}
	if came && s.state.GoneMore {
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

// stillGone are those that no thread has stored again. What was looked for is not looked for again until something says that it may be
// back.
func (s *syncer) stillGone() []gone {
	items, files := s.attachedItems(), map[string]struct{}{}
	for id := range s.known {
		if _, file := split(id); file {
			files[graph.Short(id)[:12]] = struct{}{}
		}
	}
	still := slices.DeleteFunc(slices.Clone(s.state.Gone), func(g gone) bool {
		_, item := items[g.Item]
		_, file := files[g.File]
		_, there := s.known[threadID(g.Thread)]
		return item || file || !there
	})
	for i, g := range still {
		if _, looked := s.shown[threadID(g.Thread)]; looked && !g.now {
			still[i].Back = false
		}
	}
	return still
}
