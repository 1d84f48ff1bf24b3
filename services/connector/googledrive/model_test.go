package googledrive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

// TestAfterAnyHistoryWhatIsStoredIsTheDrive makes random histories, with syncs, faults and kills at any moment.
func TestAfterAnyHistoryWhatIsStoredIsTheDrive(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t)
		defer f.Close()
		f.ReportBelow = rapid.Bool().Draw(r, "the feed names what is below")
		f.MaxPage = rapid.IntRange(1, 5).Draw(r, "page size")
		f.store.Allows = true
		m := &model{fixture: f, r: r, folders: []string{root}}
		switch rapid.IntRange(0, 3).Draw(r, "source") {
		case 0:
			f.cfg, m.roots = googledrive.Config{}, []string{root}
		case 1:
			top := f.Folder(root, "Top")
			m.folders = append(m.folders, top)
			f.cfg, m.roots = googledrive.Config{FolderID: top}, []string{top}
		case 2:
			drive := f.Drive("Team")
			m.folders = append(m.folders, drive)
			f.cfg, m.roots = googledrive.Config{DriveID: drive}, []string{drive}
		case 3:
			one, two := f.Drive("One"), f.Drive("Two")
			m.folders = append(m.folders, one, two)
			f.cfg, m.roots = googledrive.Config{IncludeSharedDrives: true}, []string{root, one, two}
		}
		m.fixed = slices.Clone(m.folders)
		f.opts.OwnerAlone = rapid.Bool().Draw(r, "the owner reads alone")
		f.opts.HeldBytes = rapid.SampledFrom([]int{0, 1, 2000}).Draw(r, "held bytes")
		f.opts.Workers = rapid.IntRange(1, 3).Draw(r, "workers")
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			m.step()
		}
		m.quiet()
	})
}

type model struct {
	*fixture
	r       *rapid.T
	roots   []string
	fixed   []string // never moved or deleted
	folders []string
	items   []string
}

func (m *model) pick(name string, from []string) string {
	return from[rapid.IntRange(0, len(from)-1).Draw(m.r, name)]
}

func (m *model) name() string {
	return rapid.SampledFrom([]string{"a.txt", "b.md", "c.csv", "d", " ", "x/../y.txt", "näme\u202e.txt", "q'uote.md"}).Draw(m.r, "name")
}

func (m *model) step() {
	content := func() string { return fmt.Sprint("words ", rapid.IntRange(0, 99).Draw(m.r, "words")) }
	switch what := rapid.IntRange(0, 21).Draw(m.r, "step"); {
	case what < 3 || len(m.items) == 0:
		m.items = append(m.items, m.File(m.pick("parent", m.folders), m.name(), "text/plain", content()))
	case what == 3:
		kind := rapid.SampledFrom([]string{fakedrive.DocumentType, fakedrive.SheetType, fakedrive.DrawingType}).Draw(m.r, "kind")
		m.items = append(m.items, m.Doc(m.pick("parent", m.folders), m.name(), kind, content()))
	case what < 6:
		id := m.Folder(m.pick("parent", m.folders), m.name())
		m.folders, m.items = append(m.folders, id), append(m.items, id)
	case what == 6:
		target := m.pick("target", append(slices.Clone(m.items), m.fixed...))
		m.items = append(m.items, m.Shortcut(m.pick("parent", m.folders), m.name(), target))
	case what == 7:
		if id := m.pick("item", m.items); !slices.Contains(m.folders, id) {
			m.Write(id, content())
		}
	case what == 8:
		m.Rename(m.pick("item", m.items), m.name())
	case what < 12: // also into itself, or what is below it
		m.Move(m.pick("item", m.items), m.pick("to", m.folders))
	case what == 12:
		if len(m.roots) == 1 && m.cfg.DriveID == "" {
			m.Move(m.pick("item", m.items), m.pick("to", m.folders), m.pick("and", m.folders))
		}
	case what == 13:
		m.Trash(m.pick("item", m.items), rapid.Bool().Draw(m.r, "trashed"))
	case what == 14:
		m.Delete(m.pick("item", m.items))
	case what == 15:
		m.Share(m.pick("item", m.items), rapid.Bool().Draw(m.r, "access"))
	case what == 16:
		m.AllowDownload(m.pick("item", m.items), rapid.Bool().Draw(m.r, "can download"))
	case what == 17:
		m.ExpireTokens()
	case what == 18:
		m.quiet()
	default:
		m.noisy()
	}
}

// noisy syncs while things go wrong, and change.
func (m *model) noisy() {
	for range rapid.IntRange(0, 3).Draw(m.r, "faults") {
		fault := rapid.SampledFrom([]fakedrive.Fault{
			fakedrive.Throttled, fakedrive.TooMany, fakedrive.Unavailable, fakedrive.Broken, fakedrive.Reset,
			fakedrive.ResetMidway, fakedrive.Truncated, fakedrive.NoPermission,
			{Times: 1, Status: 404, Reason: "notFound"}, {Times: 6, Cut: true},
		}).Draw(m.r, "fault")
		fault.Kind = rapid.SampledFrom([]string{"media", "media", "export", "list", "changes", "get", "start", "drives"}).Draw(m.r, "kind")
		if fault.Status == 404 && fault.Kind != "media" && fault.Kind != "export" && fault.Kind != "list" && (fault.Kind != "get" || len(m.roots) > 1) {
			fault.Kind = "media" // elsewhere nothing could tell that it is a lie
		}
		if fault.Status == 403 && fault.Kind != "media" && fault.Kind != "export" && fault.Reason == fakedrive.NoPermission.Reason {
			fault.Kind = "media"
		}
		if fault.Cut && fault.Kind == "export" {
			fault.Kind = "media" // half an export that says it is whole cannot be told
		}
		fault.Skip = rapid.IntRange(0, 3).Draw(m.r, "skip")
		m.Inject(fault)
	}
	if rapid.Bool().Draw(m.r, "killed") {
		left := rapid.IntRange(0, 8).Draw(m.r, "documents until the kill")
		m.store.dies = func() bool { left--; return left < 0 }
	}
	if rapid.Bool().Draw(m.r, "meanwhile") && len(m.items) > 0 {
		m.meanwhile()
	}
	if every := rapid.IntRange(0, 3).Draw(m.r, "refuses every"); every > 0 {
		n := 0
		refuses := func() bool { n++; return n%every == 0 } // the store calls it one at a time
		m.store.Refuses = func(d worker.Document) bool { return len(d.Chunks) > 0 && refuses() }
		m.store.GivesUp = func(string) bool { return refuses() }
	}
	_, err := googledrive.Sync(context.Background(), m.cfg, m.opts, m.store)
	if err == nil || errors.Is(err, source.ErrDeletionsRefused) {
		m.store.End(err)
	} else {
		m.store.Crash(func(n int) int { return rapid.IntRange(0, n-1).Draw(m.r, "left by the kill") })
	}
	m.store.dies, m.store.Refuses, m.store.GivesUp = nil, nil, nil
	m.Before(nil)
	m.Heal()
}

// meanwhile changes the drive while the sync is at work.
func (m *model) meanwhile() {
	left := rapid.IntRange(0, 12).Draw(m.r, "requests until the change")
	id, to := m.pick("item", m.items), m.pick("to", m.folders)
	change := rapid.SampledFrom([]func(){
		func() { m.Move(id, to) },
		func() { m.Delete(id) },
		func() { m.Trash(id, true) },
		func() { m.Share(id, false) },
		func() { m.Rename(id, "renamed meanwhile.txt") },
		func() { m.File(to, "new meanwhile.txt", "text/plain", "new") },
	}).Draw(m.r, "change")
	var mu sync.Mutex
	m.Before(func(string, string) {
		mu.Lock()
		defer mu.Unlock()
		if left--; left == -1 {
			change()
		}
	})
}

// quiet syncs without faults, after which all must be equal. What is not there when it is asked for goes with the second sync that does
// not find it.
func (m *model) quiet() {
	for range 3 {
		_, err := m.try()
		require.NoError(m.r, err)
	}
	want := m.want()
	got := map[string]string{}
	for id, d := range m.store.Docs() {
		text := m.store.text(id)
		if d.Err != "" {
			text = "failed: " + reasonClass(d.Err)
		}
		got[id] = d.Title + "|" + d.URL + "|" + text
	}
	require.Equal(m.r, want, got)
	m.ResetCalls()
	_, err := m.try()
	require.NoError(m.r, err)
	require.Empty(m.r, slices.Concat(m.store.put, m.store.touched, m.store.deleted), "nothing is left to do")
}

// want is what should be stored.
func (m *model) want() map[string]string {
	tree := m.Tree(m.roots...)
	want := map[string]string{}
	first := map[string]string{} // the shortcut that has a target's text
	for _, id := range slices.Sorted(maps.Keys(tree)) {
		f := tree[id]
		if _, taken := first[f.Target]; f.Mime == fakedrive.ShortcutType && !taken {
			first[f.Target] = id
		}
	}
	for id, f := range tree {
		text := ""
		switch f.Mime {
		case fakedrive.FolderType:
		case fakedrive.ShortcutType:
			_, inside := tree[f.Target]
			switch {
			case inside:
			case !m.opts.OwnerAlone && !slices.Contains(m.roots, f.Target):
				text = "failed: target elsewhere"
			case first[f.Target] == id:
				text = m.wantTarget(f.Target)
			}
		default:
			text = wantText(f)
		}
		title := f.Name
		if strings.TrimSpace(title) == "" {
			title = "Untitled"
		}
		want[id] = title + "|" + f.Link + "|" + text
	}
	return want
}

func (m *model) wantTarget(id string) string {
	t, there := m.Get(id)
	switch {
	case !there:
		return "failed: target gone"
	case t.Mime == fakedrive.FolderType:
		return "failed: target folder"
	case t.Mime == fakedrive.ShortcutType:
		return "failed: target shortcut"
	}
	return wantText(t)
}

func wantText(f fakedrive.Item) string {
	if !f.CanDownload {
		return "failed: not allowed"
	}
	mime := map[string]string{
		fakedrive.DocumentType: "text/markdown", fakedrive.SheetType: "text/csv", fakedrive.DrawingType: "",
		"text/plain": "text/plain",
	}[f.Mime]
	if mime == "" {
		return "failed: no text"
	}
	read, err := text{}.Extract(context.Background(), []byte(f.Content), f.Name, mime)
	if err != nil {
		return "failed: " + err.Error()
	}
	var b strings.Builder
	for _, c := range chunk.Split(read.Sections, chunk.Options{}) {
		b.WriteString(c.Text)
	}
	return b.String()
}

func reasonClass(reason string) string {
	for part, class := range map[string]string{
		"is gone, or is not shared": "target gone", "is not among": "target elsewhere", "shortcut to a folder": "target folder",
		"shortcut to a shortcut": "target shortcut", "canDownload is false": "not allowed", "holds no text": "no text",
	} {
		if strings.Contains(reason, part) {
			return class
		}
	}
	return reason
}
