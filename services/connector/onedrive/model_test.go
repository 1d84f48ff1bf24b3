package onedrive_test

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
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/fakereader"
)

// model is a drive that people work in while it is synced, with everything going wrong that does.
type model struct {
	*world
	files, folders []string
	names          int
}

// After each sync with nothing going on, what is stored is what is in the drive, whatever happened before.
func TestAnyHistoryEndsWithTheStoreEqualToTheDrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, fake: fakegraph.New(), sink: workertest.New(), extract: fakereader.Plain{}}
		defer w.fake.Close()
		w.drive, w.root = w.fake.NewDrive("Documents", "")
		w.cfg, w.sink.Allows = onedrive.Config{Drive: w.drive}, true
		w.fake.PageSize = rapid.IntRange(1, 5).Draw(t, "page size")
		w.pageSize = rapid.IntRange(0, 3).Draw(t, "page size asked for")
		w.heldBytes = rapid.SampledFrom([]int{0, 1, 1000}).Draw(t, "held bytes")
		w.fake.Business = rapid.Bool().Draw(t, "business")
		w.fake.ReportBelow = rapid.Bool().Draw(t, "report below")
		w.fake.RepeatItems = rapid.Bool().Draw(t, "repeat items")
		m := &model{world: w, folders: []string{w.root}}
		for range 3 {
			m.makeFolder(t)
		}
		if rapid.Bool().Draw(t, "one folder") {
			m.cfg.Item = m.folders[1]
		}
		t.Repeat(map[string]func(*rapid.T){
			"make file":    m.makeFile,
			"make files":   func(t *rapid.T) { m.makeFile(t); m.makeFile(t); m.makeFile(t) },
			"make folder":  m.makeFolder,
			"write":        m.onFile(func(t *rapid.T, id string) { m.fake.Write(id, m.text()) }),
			"rename":       m.onFile(func(t *rapid.T, id string) { m.fake.Rename(id, m.name()) }),
			"move":         m.onFile(func(t *rapid.T, id string) { m.fake.Move(id, m.folder(t)) }),
			"delete":       m.onFile(func(t *rapid.T, id string) { m.fake.Delete(id) }),
			"forbid":       m.onFile(func(t *rapid.T, id string) { m.fake.Forbid(id, rapid.Bool().Draw(t, "forbidden")) }),
			"revoke":       m.onFile(func(t *rapid.T, id string) { m.fake.Revoke(id, rapid.Bool().Draw(t, "revoked")) }),
			"folder":       m.onFolder,
			"expire":       func(t *rapid.T) { m.fake.ExpireTokens("resyncChangesApplyDifferences") },
			"fault":        m.fault,
			"not listed":   m.notListed,
			"sync":         m.disturbed,
			"killed":       m.killed,
			"reconfigure":  m.reconfigure,
			"quiet sync":   m.quiet,
			"quiet sync 2": m.quiet,
		})
		m.quiet(t)
	})
}

func (m *model) name() string { m.names++; return fmt.Sprintf("name %d.txt", m.names) }
func (m *model) text() string { m.names++; return fmt.Sprintf("a text of its own %d", m.names) }

func (m *model) folder(t *rapid.T) string { return rapid.SampledFrom(m.folders).Draw(t, "folder") }

func (m *model) makeFile(t *rapid.T) {
	m.files = append(m.files, m.fake.File(m.folder(t), m.name(), m.text()))
}

func (m *model) makeFolder(t *rapid.T) {
	m.folders = append(m.folders, m.fake.Folder(m.folder(t), m.name()))
}

// onFile does something to a file that is there.
func (m *model) onFile(do func(*rapid.T, string)) func(*rapid.T) {
	return func(t *rapid.T) {
		if len(m.files) == 0 {
			t.Skip("no files")
		}
		id := rapid.SampledFrom(m.files).Draw(t, "file")
		do(t, id)
		m.forget()
	}
}

// forget drops what was deleted, with its folder or alone.
func (m *model) forget() {
	m.files = slices.DeleteFunc(m.files, m.fake.Deleted)
	m.folders = slices.DeleteFunc(m.folders, m.fake.Deleted)
}

// onFolder renames, moves or deletes a folder, other than the one that is synced and those above it.
func (m *model) onFolder(t *rapid.T) {
	id := m.folder(t)
	if m.fake.In(m.scope(), id) {
		t.Skip("it holds what is synced")
	}
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0, 1:
		m.fake.Rename(id, m.name())
	case 2, 3:
		m.fake.Move(id, m.folder(t))
	default:
		m.fake.Delete(id)
		m.forget()
	}
}

// full has no room, or not for every so many documents, until a quiet sync; so many deletions are given up.
func (m *model) full(t *rapid.T) {
	every := int64(rapid.IntRange(0, 3).Draw(t, "refuses every"))
	if every == 0 {
		return
	}
	var n atomic.Int64
	m.sink.Refuses = func(worker.Document) bool { return n.Add(1)%every == 0 }
	m.sink.GivesUp = func(string) bool { return n.Add(1)%every == 0 }
}

func (m *model) fault(t *rapid.T) {
	fault := rapid.SampledFrom([]fakegraph.Fault{
		fakegraph.Throttled, fakegraph.Unavailable, fakegraph.Broken, fakegraph.BadGateway, fakegraph.Reset, fakegraph.Truncated,
	}).Draw(t, "fault")
	fault = fault.On(rapid.SampledFrom([]string{"", "/delta", "/download/", "/items/", "/children"}).Draw(t, "path"),
		rapid.IntRange(1, 12).Draw(t, "times"))
	fault.Skip = rapid.IntRange(0, 6).Draw(t, "skip")
	m.fake.Inject(fault)
}

// notListed are folders that may not be listed for a while, or are not there.
func (m *model) notListed(t *rapid.T) {
	m.fake.Inject(fakegraph.Fault{
		Path: "/children", Times: rapid.IntRange(1, 12).Draw(t, "times"), Skip: rapid.IntRange(0, 3).Draw(t, "skip"),
		Status: rapid.SampledFrom([]int{http.StatusForbidden, http.StatusNotFound, http.StatusLocked}).Draw(t, "status"), Code: "accessDenied",
	})
}

// disturbed is a sync during which somebody works in the drive.
func (m *model) disturbed(t *rapid.T) {
	m.full(t)
	during := rapid.IntRange(0, 8).Draw(t, "after requests")
	what := rapid.IntRange(0, 4).Draw(t, "what")
	where := m.folder(t)
	if m.fake.In(m.scope(), where) {
		where = ""
	}
	var n atomic.Int64
	m.fake.Before(func(*http.Request) {
		if int(n.Add(1)) != during+1 {
			return
		}
		switch what {
		case 0:
			m.fake.ExpireURLs()
		case 1:
			m.fake.ExpireTokens("resyncChangesUploadDifferences")
		case 2:
			if len(m.files) > 0 {
				m.fake.Write(m.files[len(m.files)-1], m.text())
			}
		case 3:
			if where != "" {
				m.fake.Delete(where)
			}
		case 4:
			if where != "" {
				m.fake.Rename(where, m.name())
			}
		}
	})
	_, _ = m.try(context.Background())
	m.fake.Before(nil)
	m.forget()
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
	_, err := onedrive.Sync(ctx, m.cfg, m.options(), m.sink)
	m.fake.Before(nil)
	if err == nil {
		m.sink.Complete()
	} else {
		m.sink.Crash(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "left by the kill") })
	}
}

func (m *model) reconfigure(t *rapid.T) {
	m.cfg.Item = ""
	if id := m.folder(t); id != m.root {
		m.cfg.Item = id
	}
	m.sink.Reconfigure()
}

// undecided tells whether something is kept that was not there, or that may not be asked for: the next sync decides.
func (m *model) undecided() bool {
	var state struct {
		Cursor struct{ Relist bool }
	}
	if err := m.sink.State(&state); err != nil || state.Cursor.Relist {
		return true
	}
	return slices.ContainsFunc(failures(m.sink), func(why string) bool { return strings.HasPrefix(why, notThere) })
}

func (m *model) quiet(t *rapid.T) {
	m.fake.Heal()
	m.sink.Refuses, m.sink.GivesUp = nil, nil
	if _, err := m.try(context.Background()); err != nil {
		t.Fatalf("a sync with nothing going on fails: %v", err)
	}
	for n := 0; n < 2 && m.undecided(); n++ {
		_, _ = m.try(context.Background())
	}
	if problem := m.differs(); problem != "" {
		t.Fatal(problem)
	}
	m.fake.Requests()
	if r, err := m.try(context.Background()); err != nil || r.Put+r.Touched+r.Deleted > 0 {
		t.Fatalf("a sync after it changes something: %+v %v", r, err)
	}
}
