package googledrive_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

// mockFolder names the folder where google-drive-mock is installed: see `make test-drive-mock`. Its differences from
// the real service, which decide what this suite can ask of it, are in docs/google-drive.md.
const mockFolder = "CONNECTOR_DRIVE_MOCK"

// remote is a drive that a test changes: our own fake, or somebody else's.
type remote interface {
	Folder(parent, name string) string
	File(parent, name, mime, content string) string
	Write(id, content string)
	Rename(id, name string)
	Move(id string, parents ...string)
	Trash(id string, trashed bool)
	Delete(id string)
}

// mock is google-drive-mock, which keeps one drive for all and knows no root of it.
type mock struct {
	t      *testing.T
	base   string
	client *http.Client
}

// startMock runs it on a port of its own.
func startMock(t *testing.T, folder string) *mock {
	t.Helper()
	script := `const server = require("google-drive-mock").startServer(0, "127.0.0.1");
		server.on("listening", () => console.log("port=" + server.address().port));`
	cmd := exec.Command("node", "-e", script)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	m := &mock{t: t}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if port, is := strings.CutPrefix(lines.Text(), "port="); is {
			m.base = "http://127.0.0.1:" + port
			break
		}
	}
	require.NotEmpty(t, m.base, "google-drive-mock does not start")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	m.client = &http.Client{Transport: authorised{transport}}
	return m
}

type authorised struct{ http.RoundTripper }

func (a authorised) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer valid-token")
	return a.RoundTripper.RoundTrip(req)
}

func (m *mock) ask(method, path, mime string, body []byte) map[string]any {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), method, m.base+path, bytes.NewReader(body))
	require.NoError(m.t, err)
	if mime != "" {
		req.Header.Set("Content-Type", mime)
	}
	resp, err := m.client.Do(req)
	require.NoError(m.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(m.t, errors.Join(err, resp.Body.Close()))
	require.Equal(m.t, 2, resp.StatusCode/100, "%s %s: %s", method, path, text)
	var answer map[string]any
	if len(text) > 0 {
		require.NoError(m.t, json.Unmarshal(text, &answer))
	}
	return answer
}

func (m *mock) patch(id string, change map[string]any) {
	body, err := json.Marshal(change)
	require.NoError(m.t, err)
	m.ask("PATCH", "/drive/v3/files/"+id, "application/json", body)
}

func (m *mock) create(parent, name, mime string) string {
	resource := map[string]any{"name": name, "mimeType": mime}
	if parent != "" {
		resource["parents"] = []string{parent}
	}
	body, err := json.Marshal(resource)
	require.NoError(m.t, err)
	id, _ := m.ask("POST", "/drive/v3/files", "application/json", body)["id"].(string)
	return id
}

func (m *mock) Folder(parent, name string) string {
	return m.create(parent, name, fakedrive.FolderType)
}

func (m *mock) File(parent, name, mime, content string) string {
	id := m.create(parent, name, mime)
	m.Write(id, content)
	return id
}

func (m *mock) Write(id, content string) {
	m.ask("PATCH", "/upload/drive/v3/files/"+id+"?uploadType=media", "text/plain", []byte(content))
}
func (m *mock) Rename(id, name string)        { m.patch(id, map[string]any{"name": name}) }
func (m *mock) Trash(id string, trashed bool) { m.patch(id, map[string]any{"trashed": trashed}) }
func (m *mock) Delete(id string)              { m.ask("DELETE", "/drive/v3/files/"+id, "", nil) }
func (m *mock) Move(id string, parents ...string) {
	had := m.ask("GET", "/drive/v3/files/"+id+"?fields=parents", "", nil)["parents"].([]any)
	query := url.Values{"addParents": parents}
	for _, p := range had {
		query.Add("removeParents", fmt.Sprint(p))
	}
	if fmt.Sprint(had[0]) != parents[0] {
		m.ask("PATCH", "/drive/v3/files/"+id+"?"+query.Encode(), "", nil)
	}
}

// outside is what the suite knows of a drive on any server.
type outside struct {
	*fixture
	drive     remote
	top, away string
	items     map[string]*thing
}

type thing struct {
	name, parent, content string
	folder, trashed, gone bool
}

func eachOutside(t *testing.T, test func(t *testing.T, o *outside)) {
	run := func(t *testing.T, f *fixture, r remote, above string) {
		o := &outside{drive: r, fixture: f, items: map[string]*thing{}}
		o.top, o.away = r.Folder(above, "Top"), r.Folder(above, "Away")
		f.cfg = googledrive.Config{FolderID: o.top}
		f.opts.PageSize = 3
		test(t, o)
	}
	t.Run("our fake", func(t *testing.T) {
		f := newFixture(t)
		run(t, f, f.Server, root)
	})
	if folder := os.Getenv(mockFolder); folder != "" {
		t.Run("google-drive-mock", func(t *testing.T) {
			f := newFixture(t)
			m := startMock(t, folder)
			f.opts.Endpoint, f.opts.Client = m.base, m.client
			run(t, f, m, "")
		})
	}
}

func (o *outside) folder(parent, name string) string {
	id := o.drive.Folder(parent, name)
	o.items[id] = &thing{name: name, parent: parent, folder: true}
	return id
}

func (o *outside) file(parent, name, content string) string {
	id := o.drive.File(parent, name, "text/plain", content)
	o.items[id] = &thing{name: name, parent: parent, content: content}
	return id
}

// in tells whether something is below the folder that is synced.
func (o *outside) in(id string) bool {
	for range 100 {
		t := o.items[id]
		if t == nil || t.trashed || t.gone {
			return false
		}
		if t.parent == o.top {
			return true
		}
		id = t.parent
	}
	return false
}

// equal syncs and compares.
func (o *outside) equal(t *testing.T) googledrive.Result {
	t.Helper()
	r := o.sync()
	want, got := map[string]string{}, map[string]string{}
	for id, thing := range o.items {
		if o.in(id) {
			want[id] = thing.name + "|" + thing.content
		}
	}
	for id, d := range o.store.Docs() {
		got[id] = d.Title + "|" + o.store.text(id)
	}
	require.Equal(t, want, got)
	return r
}

func TestAnyDriveIsKeptInSync(t *testing.T) {
	eachOutside(t, func(t *testing.T, o *outside) {
		sub := o.folder(o.top, "Sub")
		deep := o.folder(sub, "Deep")
		var ids []string
		for i := range 8 {
			ids = append(ids, o.file([]string{o.top, sub, deep}[i%3], fmt.Sprint(i, ".txt"), fmt.Sprint("words ", i)))
		}
		outsider := o.file(o.away, "outside.txt", "elsewhere")
		o.equal(t)
		require.Zero(t, o.equal(t).Put, "nothing has changed")

		o.drive.Rename(ids[0], "renamed.txt")
		o.items[ids[0]].name = "renamed.txt"
		o.drive.Write(ids[1], "other words")
		o.items[ids[1]].content = "other words"
		o.drive.Delete(ids[2])
		o.items[ids[2]].gone = true
		o.drive.Trash(ids[3], true)
		o.items[ids[3]].trashed = true
		o.drive.Move(outsider, deep)
		o.items[outsider].parent = deep
		r := o.equal(t)
		require.Equal(t, 2, r.Put, "what was written, and what has come")
		require.Equal(t, 1, r.Touched)

		o.drive.Move(sub, o.away)
		o.items[sub].parent = o.away
		o.equal(t)
		o.drive.Move(sub, o.top)
		o.items[sub].parent = o.top
		o.drive.Trash(ids[3], false)
		o.items[ids[3]].trashed = false
		o.equal(t)
		o.drive.Trash(deep, true)
		o.items[deep].trashed = true
		o.equal(t)
		o.drive.Delete(sub)
		o.items[sub].gone = true
		o.equal(t)
	})
}

func TestAnyDriveIsListedOnWhereAKillWas(t *testing.T) {
	eachOutside(t, func(t *testing.T, o *outside) {
		for i := range 20 {
			o.file(o.top, fmt.Sprint(i, ".txt"), fmt.Sprint("words ", i))
		}
		o.store.kill = func(checkpoint int) (bool, bool) { return false, checkpoint == 1 }
		put, kills := 0, 0
		for ; kills < 50; kills++ {
			r, err := o.try()
			put += r.Put
			if err == nil {
				break
			}
			require.ErrorIs(t, err, errKilled)
		}
		require.Equal(t, 8, kills)
		require.Equal(t, 20, put, "nothing is stored twice")
		o.equal(t)
	})
}

func TestAnyDriveIsEqualAfterARandomHistory(t *testing.T) {
	eachOutside(t, func(t *testing.T, o *outside) {
		random := rand.New(rand.NewPCG(4, 2))
		folders, all := []string{o.top, o.away}, []string{}
		for range 120 {
			parent := folders[random.IntN(len(folders))]
			live := all[:0:0]
			for _, id := range all {
				if !o.items[id].gone {
					live = append(live, id)
				}
			}
			if t := o.items[parent]; t != nil && t.gone {
				parent = o.top
			}
			what := random.IntN(8)
			if len(live) == 0 {
				what = 0
			}
			switch what {
			case 0, 1:
				all = append(all, o.file(parent, "f.txt", fmt.Sprint("words ", random.IntN(9))))
			case 2:
				id := o.folder(parent, "folder")
				folders, all = append(folders, id), append(all, id)
			case 3:
				o.equal(t)
			default:
				o.change(live[random.IntN(len(live))], parent, what, random.IntN(2) == 0)
			}
		}
		o.equal(t)
	})
}

// change makes one change, if the item is there to be changed.
func (o *outside) change(id, parent string, what int, yes bool) {
	it := o.items[id]
	for at := id; o.items[at] != nil; at = o.items[at].parent {
		if o.items[at].gone {
			return // our fake deletes what is in a deleted folder, the mock does not
		}
		if parent == at && what == 5 {
			return // into itself
		}
	}
	for at := parent; o.items[at] != nil; at = o.items[at].parent {
		if (at == id || o.items[at].gone) && what == 5 {
			return
		}
	}
	switch what {
	case 4:
		if it.folder {
			return
		}
		it.content += " and more"
		o.drive.Write(id, it.content)
	case 5:
		it.parent = parent
		o.drive.Move(id, parent)
	case 6:
		it.trashed = yes
		o.drive.Trash(id, yes)
	case 7:
		it.gone = true
		o.drive.Delete(id)
	}
}
