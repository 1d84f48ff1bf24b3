package teams_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/teams"
	"github.com/echomind/sync/testonly/fakegraph"
)

// model is a channel in which people write while it is synced, with everything going wrong that does.
type model struct {
	*world
	roots, messages, files []string
	words                  int
	below                  string // a folder in the channel's
}

// After each sync with nothing going on, what is stored is what is in the channel, whatever happened before.
func TestAnyHistoryEndsWithTheStoreEqualToTheChannel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{fake: fakegraph.New()}
		defer w.fake.Close()
		w.fake.PageSize = rapid.IntRange(1, 4).Draw(t, "page size")
		w.fake.MaxReplies = rapid.IntRange(1, 4).Draw(t, "replies expanded")
		w.fake.RepliesHidden = rapid.Bool().Draw(t, "replies hidden")
		m := &model{world: w.in(t)}
		m.store.Allows = true
		m.below = m.fake.Folder(m.folder, "below")
		t.Repeat(map[string]func(*rapid.T){
			"post": m.post,
			"reply": func(t *rapid.T) {
				// A thread that shows nothing is not known, nor asked for again.
				root := m.one(t, slices.DeleteFunc(slices.Clone(m.roots), func(root string) bool { return !m.heard(root) }), "root")
				m.messages = append(m.messages, m.fake.Say(channelID, root, m.text(t)))
			},
			"edit":    func(t *rapid.T) { m.fake.Edit(channelID, m.one(t, m.messages, "message"), m.text(t)) },
			"retract": func(t *rapid.T) { m.drop(t, m.fake.Retract, m.one(t, m.messages, "message")) },
			"remove":  func(t *rapid.T) { m.drop(t, m.fake.Remove, m.one(t, m.roots, "root")) },
			"react":   func(t *rapid.T) { m.fake.React(channelID, m.one(t, m.messages, "message")) },
			"block":   func(t *rapid.T) { m.fake.Block(channelID, m.one(t, m.messages, "message")) },
			"write":   func(t *rapid.T) { m.fake.Write(m.one(t, m.files, "file"), m.word()) },
			"forbid": func(t *rapid.T) {
				m.fake.Forbid(m.one(t, m.files, "file"), rapid.Bool().Draw(t, "forbidden"))
			},
			"delete file": func(t *rapid.T) {
				id := m.one(t, m.files, "file")
				m.fake.Delete(id)
				m.files = slices.DeleteFunc(m.files, func(f string) bool { return f == id })
			},
			"rename file": func(t *rapid.T) { m.fake.Rename(m.one(t, m.files, "file"), m.word()+"txt") },
			"move file": func(t *rapid.T) {
				id, to := m.one(t, m.files, "file"), rapid.SampledFrom([]string{m.folder, m.below, m.root}).Draw(t, "to")
				if url := m.fake.URL(id); m.free(t, to, url[strings.LastIndex(url, "/")+1:]) {
					m.fake.Move(id, to)
				}
			},
			"move folder": func(t *rapid.T) {
				m.fake.Move(m.below, rapid.SampledFrom([]string{m.folder, m.root}).Draw(t, "to"))
			},
			"take a name": func(t *rapid.T) {
				name := fmt.Sprintf("word%d.txt", rapid.IntRange(1, m.words+1).Draw(t, "name"))
				to := rapid.SampledFrom([]string{m.folder, m.below}).Draw(t, "in")
				if m.free(t, to, name) {
					m.files = append(m.files, m.fake.File(to, name, m.word()))
				}
			},
			"expire": func(t *rapid.T) { m.fake.ExpireTokens("resyncChangesApplyDifferences") },
			"fault":  m.fault,
			"library away": func(t *rapid.T) {
				m.fake.Inject(fakegraph.Fault{Path: "/items/" + m.folder, Times: rapid.IntRange(1, 3).Draw(t, "times"), Status: http.StatusNotFound})
			},
			"disturbed":   m.disturbed,
			"killed":      m.killed,
			"reconfigure": func(t *rapid.T) { m.store.Reconfigure() },
			"quiet sync":  m.quiet,
		})
		m.quiet(t)
	})
}

func (m *model) one(t *rapid.T, of []string, what string) string {
	if len(of) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(of).Draw(t, what)
}

// free tells whether no file of a folder has a name.
func (m *model) free(_ *rapid.T, folder, name string) bool {
	for _, f := range m.fake.Contents(m.root) {
		if f.URL == m.fake.URL(folder)+"/"+name {
			return false
		}
	}
	return true
}

// heard tells whether a reply in a thread can be found out about.
func (m *model) heard(root string) bool {
	return !m.fake.RepliesHidden || len(m.fake.Threads(channelID)[root]) > 0
}

func (m *model) word() string { m.words++; return fmt.Sprintf("word%d.", m.words) }

func (m *model) text(t *rapid.T) fakegraph.Post {
	var files []string
	if rapid.IntRange(0, 2).Draw(t, "with a file") == 0 {
		if len(m.files) == 0 || rapid.Bool().Draw(t, "new file") {
			m.files = append(m.files, m.fake.File(rapid.SampledFrom([]string{m.folder, m.below}).Draw(t, "in"), m.word()+"txt", m.word()))
		}
		files = append(files, m.files[len(m.files)-1])
	}
	return post(m.world, rapid.SampledFrom([]string{"Ann", "Bob"}).Draw(t, "author"), m.word(), files...)
}

func (m *model) post(t *rapid.T) {
	id := m.fake.Say(channelID, "", m.text(t))
	m.roots, m.messages = append(m.roots, id), append(m.messages, id)
}

// drop retracts or removes a message, after which nobody edits it.
func (m *model) drop(_ *rapid.T, do func(channel, id string), id string) {
	do(channelID, id)
	visible := map[string]bool{}
	for root, thread := range m.fake.Threads(channelID) {
		for _, said := range thread {
			visible[said.ID], visible[root] = true, true
		}
	}
	gone := func(id string) bool { return !visible[id] }
	m.roots, m.messages = slices.DeleteFunc(m.roots, gone), slices.DeleteFunc(m.messages, func(one string) bool {
		return one == id || gone(one)
	})
}

// full has no room, or not for every so many documents, until a quiet sync; so many deletions are given up.
func (m *model) full(t *rapid.T) {
	every := int64(rapid.IntRange(0, 3).Draw(t, "refuses every"))
	if every == 0 {
		return
	}
	var n atomic.Int64
	m.store.Refuses = func(d worker.Document) bool { return len(d.Chunks) > 0 && n.Add(1)%every == 0 }
	m.store.GivesUp = func(string) bool { return n.Add(1)%every == 0 }
}

func (m *model) fault(t *rapid.T) {
	fault := rapid.SampledFrom([]fakegraph.Fault{
		fakegraph.Throttled, fakegraph.Unavailable, fakegraph.Broken, fakegraph.Reset, fakegraph.Truncated,
	}).Draw(t, "fault")
	fault = fault.On(rapid.SampledFrom([]string{"", "/delta", "/download/", "/messages", "/shares/"}).Draw(t, "path"),
		rapid.IntRange(1, 10).Draw(t, "times"))
	fault.Skip = rapid.IntRange(0, 5).Draw(t, "skip")
	m.fake.Inject(fault)
}

// disturbed is a sync during which somebody writes in the channel.
func (m *model) disturbed(t *rapid.T) {
	m.full(t)
	during, what := int64(rapid.IntRange(1, 8).Draw(t, "at request")), rapid.IntRange(0, 3).Draw(t, "what")
	text := m.text(t)
	var n atomic.Int64
	m.fake.Before(func(*http.Request) {
		if n.Add(1) != during {
			return
		}
		switch {
		case what == 0:
			m.fake.ExpireURLs()
		case what == 1 && len(m.roots) > 0 && m.heard(m.roots[0]):
			m.messages = append(m.messages, m.fake.Say(channelID, m.roots[0], text))
		case what == 2 && len(m.messages) > 0:
			m.fake.Edit(channelID, m.messages[0], text)
		case what == 3 && len(m.files) > 0:
			m.fake.Write(m.files[0], m.word())
		}
	})
	_, _ = m.try(context.Background())
	m.fake.Before(nil)
}

// killed is a sync that ends at any request.
func (m *model) killed(t *rapid.T) {
	m.full(t)
	ctx, kill := context.WithCancel(context.Background())
	defer kill()
	at := int64(rapid.IntRange(1, 15).Draw(t, "at request"))
	var n atomic.Int64
	m.fake.Before(func(*http.Request) {
		if n.Add(1) == at {
			kill()
		}
	})
	_, err := teams.Sync(ctx, m.cfg, m.options(), m.store)
	m.fake.Before(nil)
	if err == nil {
		m.store.Complete()
	} else {
		m.store.Crash(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "left by the kill") })
	}
}

func (m *model) quiet(t *rapid.T) {
	m.fake.Heal()
	m.store.Refuses, m.store.GivesUp = nil, nil
	if _, err := m.try(context.Background()); err != nil {
		t.Fatalf("a sync with nothing going on fails: %v", err)
	}
	for _, d := range m.store.Docs() {
		if !strings.Contains(d.Err, "looked for again by the next sync") {
			continue
		}
		if _, err := m.try(context.Background()); err != nil {
			t.Fatalf("a sync that looks again fails: %v", err)
		}
		break
	}
	if problem := m.differs(); problem != "" {
		t.Fatal(problem)
	}
	if r, err := m.try(context.Background()); err != nil || r.Put+r.Touched+r.Deleted > 0 {
		t.Fatalf("a sync after it changes something: %+v %v", r, err)
	}
}
