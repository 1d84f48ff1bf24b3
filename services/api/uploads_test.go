package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// form is a body with files: names, each with its content behind it.
func form(t testing.TB, files ...string) (kind, body string) {
	t.Helper()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for i := 0; i+1 < len(files); i += 2 {
		said := mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": files[i]})
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {said}})
		require.NoError(t, err)
		_, err = io.WriteString(part, files[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return w.FormDataContentType(), out.String()
}

func (c caller) upload(id any, files ...string) reply {
	c.Helper()
	kind, body := form(c, files...)
	return c.do("POST", fmt.Sprintf("/connectors/%v/files", id), body, "Content-Type", kind)
}

// uploader makes a connector whose files are uploaded.
func (c caller) uploader(config ...any) any {
	c.Helper()
	all := map[string]any{"url": "upload:"}
	for i := 0; i+1 < len(config); i += 2 {
		all[config[i].(string)] = config[i+1]
	}
	made := c.do("POST", "/connectors", map[string]any{"name": "mine", "type": "file", "config": all})
	require.Equal(c, http.StatusCreated, made.status, made.text)
	return made.body["id"]
}

// objects counts the files in the folder of uploads, whole ones and others.
func (w *world) objects() (n int) {
	w.Helper()
	require.NoError(w, filepath.WalkDir(w.uploads, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	}))
	return n
}

func (w *world) eventually(is func() bool) {
	w.Helper()
	testkit.Eventually(w, ample*time.Second, func() error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
}

// dropped removes from the bucket what no file has, as if the time for that had come.
func (w *world) dropped() {
	w.Helper()
	w.exec(`UPDATE dropped_objects SET drop_at = clock_timestamp()`)
	require.NoError(w, w.api.RemoveDropped(w.Context()))
}

// fileNames are the names of a connector's files.
func (c caller) fileNames(id any) (names []string) {
	c.Helper()
	for _, file := range c.get(fmt.Sprintf("/connectors/%v/files", id))["files"].([]any) {
		names = append(names, file.(map[string]any)["name"].(string))
	}
	return names
}

// curl -F 'file=@notes.md;encoder=base64' sends such a part. What is not decoded would be kept as it is sent.
func TestAPartThatIsSentInAnotherEncodingIsNotKeptAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	path := fmt.Sprintf("/connectors/%v/files", me.uploader())
	const kind, body = "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=file; filename=a.md\r\nContent-Transfer-Encoding: %s\r\n\r\n%s\r\n--b--\r\n"
	for encoding, sent := range map[string]string{"base64": "IyBPa2FwaXMK", "quoted-printable": "# Okapis =C3=BC"} {
		me.refused(415, "media-type", me.do("POST", path, fmt.Sprintf(body, encoding, sent), "Content-Type", kind))
	}
	for _, plain := range []string{"binary", "8bit", "7BIT"} {
		require.Equal(t, http.StatusAccepted, me.do("POST", path, fmt.Sprintf(body, plain, "# Okapis"), "Content-Type", kind).status, plain)
	}
}

func TestFilesAreUploadedReplacedListedAndDeletedAndTheConnectorIsTriggeredEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	w.exec(`UPDATE connectors SET trigger_requested_at = NULL`)
	first := me.upload(id, "b.md", "# B", "a.md", "# A")
	require.Equal(t, http.StatusAccepted, first.status, first.text)
	sum := sha256.Sum256([]byte("# A"))
	require.Equal(t, map[string]any{"name": "a.md", "bytes": 3., "sha256": hex.EncodeToString(sum[:])}, first.body["files"].([]any)[0])
	require.True(t, one[bool](w, `SELECT trigger_requested_at IS NOT NULL FROM connectors WHERE id = $1`, id))
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM audit WHERE action = 'connectors.sync'`), "one trigger for all files of a request")
	page := me.get(fmt.Sprintf("/connectors/%v/files?page_size=1", id))
	shown := page["files"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"a.md", 3., "waiting", "user 7", nil}, []any{shown["name"], shown["bytes"], shown["document"], shown["uploaded_by"], shown["error"]})
	page = me.get(fmt.Sprintf("/connectors/%v/files?page_size=1&page_token=%v", id, page["next_page_token"]))
	require.Equal(t, "b.md", page["files"].([]any)[0].(map[string]any)["name"])
	require.Nil(t, page["next_page_token"])

	w.exec(`UPDATE connectors SET trigger_requested_at = NULL`)
	require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", "# Another").status)
	require.True(t, one[bool](w, `SELECT trigger_requested_at IS NOT NULL FROM connectors WHERE id = $1`, id))
	require.Equal(t, 3, w.objects(), "the old content stays for a while, as a sync may be reading it")
	require.Equal(t, "2 12 3", one[string](w, `SELECT concat_ws(' ', files, bytes, left_bytes) FROM upload_places`))
	w.dropped()
	require.Equal(t, 2, w.objects())
	require.Equal(t, "2 12 0", one[string](w, `SELECT concat_ws(' ', files, bytes, left_bytes) FROM upload_places`))

	w.exec(`UPDATE connectors SET trigger_requested_at = NULL`)
	gone := me.do("DELETE", fmt.Sprintf("/connectors/%v/files/b.md", id), nil, "If-Match", "*")
	require.Equal(t, http.StatusAccepted, gone.status, gone.text)
	require.True(t, one[bool](w, `SELECT trigger_requested_at IS NOT NULL FROM connectors WHERE id = $1`, id))
	me.refused(404, "not-found", me.do("DELETE", fmt.Sprintf("/connectors/%v/files/b.md", id), nil, "If-Match", "*"))
	me.refused(404, "not-found", me.do("DELETE", fmt.Sprintf("/connectors/%v/files/%%2Fetc%%2Fpasswd", id), nil, "If-Match", "*"))
	require.Equal(t, []string{"a.md"}, me.fileNames(id))
	w.dropped()
	require.Equal(t, 1, w.objects())
	require.Equal(t, "files.delete files.upload files.upload files.upload", one[string](w, `SELECT string_agg(action, ' ' ORDER BY action) FROM audit WHERE action LIKE 'files.%' AND user_id = 7 AND connector_id = $1`, id))
	require.Equal(t, "3 9", one[string](w, `SELECT concat_ws(' ', before ->> 'bytes', after ->> 'bytes') FROM audit WHERE object_id = $1 AND before IS NOT NULL`, fmt.Sprint(id, "/a.md")))
}

func TestNoNameOfAClientsIsBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	long := strings.Repeat("x", 255)
	for given, kept := range map[string]string{
		"notes.md": "notes.md", "../../etc/passwd": "passwd", "/etc/shadow": "shadow", `C:\fakepath\notes.md`: "notes.md", `..\..\boot.ini`: "boot.ini", "a/b/c.txt": "c.txt", `a\b/c\d.txt`: "d.txt",
		"CON": "CON", "nul.txt": "nul.txt", "a:b": "a:b", "x.md::$DATA": "x.md::$DATA", "aux.": "aux.", "a%2fb": "a%2fb", "%2e%2e": "%2e%2e", "$(reboot)": "$(reboot)", "`id`": "`id`", "'; DROP TABLE connectors; --": "'; DROP TABLE connectors; --",
		"<script>alert(1)</script>": "script>", "Übersicht.md": "Übersicht.md", "U\u0308bersicht.md": "Übersicht.md", "日本語.txt": "日本語.txt", "نامه\u200cها.txt": "نامه\u200cها.txt", "👩\u200d💻.md": "👩\u200d💻.md", "a b.md": "a b.md", long: long, "-rf": "-rf", "~": "~", "*": "*", "~root/x": "x",
	} {
		r := me.upload(id, given, "text")
		require.Equal(t, http.StatusAccepted, r.status, "%q: %s", given, r.text)
		require.Equal(t, kept, r.body["files"].([]any)[0].(map[string]any)["name"], "%q", given)
	}
	before := len(me.fileNames(id))
	for _, given := range []string{
		"", ".", "..", "../..", "a/", "a/..", `a\`, ".env", "a/.git", ".\u200c", " ", "\u00a0", " a", "a ", "a\x00b", "a\nb", "a\rb", "a\tb", "\x1b[31m", "a\x7f", "\u202egpj.md", "a\u200bb", "\ufeffa", "\u200c", "\ufffd", "a\u2028b", long + "x", strings.Repeat("ü", 128),
	} {
		r := me.upload(id, given, "text")
		me.refused(422, "invalid", r)
		require.Contains(t, r.text, "body", "%q", given)
	}
	for _, said := range []string{`form-data; name="file"; filename*=utf-8''%FF%FE`, `form-data; name="file"`, `form-data; name="file"; filename="`, ``} {
		body := "--b\r\nContent-Disposition: " + said + "\r\n\r\ntext\r\n--b--\r\n"
		me.refused(422, "invalid", me.do("POST", fmt.Sprintf("/connectors/%v/files", id), body, "Content-Type", "multipart/form-data; boundary=b"))
	}
	require.Len(t, me.fileNames(id), before)
	require.NoError(t, filepath.WalkDir(w.uploads, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			require.Equal(t, "content", entry.Name(), path)
		}
		return err
	}))
	require.Equal(t, http.StatusAccepted, me.do("DELETE", fmt.Sprintf("/connectors/%v/files/U%%CC%%88bersicht.md", id), nil, "If-Match", "*").status, "it is found by another spelling of its name")
}

func TestAnUploadThatIsCutOrRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader("max_file_bytes", 100_000)
	whole, large := strings.Repeat("x", 100_000), strings.Repeat("x", 100_001)
	path := fmt.Sprintf("/connectors/%v/files", id)
	kind, body := form(t, "a.md", whole, "b.md", whole)
	for _, cut := range []string{body[:len(body)-1000], body[:len(body)-4], body[:50], "", "no form"} {
		me.refused(400, "invalid", me.do("POST", path, cut, "Content-Type", kind))
	}
	me.refused(413, "too-large", me.upload(id, "a.md", whole, "b.md", large))
	me.refused(422, "invalid", me.upload(id, "a.md", whole, "a.md", whole))
	me.refused(422, "invalid", me.upload(id, "a.md", whole, "b.md", ""))
	me.refused(415, "media-type", me.do("POST", path, body, "Content-Type", "application/json"))
	me.refused(415, "media-type", me.do("POST", path, body, "Content-Type", "multipart/form-data"))
	for name, content := range map[string]string{
		"a.pdf": "%PDF-1.7\n", "a.png": "\x89PNG\r\n\x1a\n" + whole[:100], "a.zip": "PK\x03\x04" + whole[:100], "a.exe": "MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00", "a.rtf": `{\rtf1 text}`, "a.md": strings.Repeat("\x00\x01x", 100),
	} {
		r := me.upload(id, "ok.md", whole, name, content)
		me.refused(415, "media-type", r)
		require.Contains(t, r.text, "Markdown", name)
	}
	many := []string{}
	for i := range 101 {
		many = append(many, fmt.Sprint(i, ".md"), "x")
	}
	me.refused(413, "too-large", me.upload(id, many...))
	require.Empty(t, me.fileNames(id))
	require.Zero(t, w.objects())
	require.Zero(t, one[int](w, `SELECT count(*) FROM audit WHERE action LIKE 'files.%' OR action = 'connectors.sync'`))
	require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", whole, "utf16.txt", "\xff\xfea\x00", "log.txt", "one \x07 bell").status)
}

// declares sends the head of a request that says how long it is, and the beginning of its body.
func (c caller) declares(path, kind string, length int64, body string) (status string) {
	c.Helper()
	conn, err := net.Dial("tcp", c.server.Listener.Addr().String())
	require.NoError(c, err)
	defer func() { require.NoError(c, conn.Close()) }()
	_, err = fmt.Fprintf(conn, "POST /api/v1%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, c.token, kind, length, body)
	require.NoError(c, err)
	line := make([]byte, 12)
	_, err = io.ReadFull(conn, line)
	require.NoError(c, err)
	return string(line)
}

func TestWhatIsDeclaredTooLargeIsRefusedBeforeItComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	path := fmt.Sprintf("/connectors/%v/files", me.uploader())
	require.Equal(t, "HTTP/1.1 413", me.declares(path, "multipart/form-data; boundary=b", 1<<40, ""))
}

func TestAClientThatGoesAwayLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	body, send := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("%s/api/v1/connectors/%v/files", w.server.URL, id), body)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+me.token)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	var wait sync.WaitGroup
	wait.Go(func() {
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
	})
	_, err = io.WriteString(send, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.md\"\r\n\r\n"+strings.Repeat("x", 100_000))
	require.NoError(t, err)
	w.eventually(func() bool { return w.objects() == 1 })
	require.NoError(t, send.CloseWithError(io.ErrUnexpectedEOF))
	wait.Wait()
	w.eventually(func() bool { return w.objects() == 0 })
	require.Empty(t, me.fileNames(id))
}

func TestOfTwoUploadsOfANameTheLastThatEndsIsThereWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.UploadsAtOnce = 20 })
	me := w.as(7, identity.User)
	id := me.uploader()
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			kind, body := form(t, "a.md", strings.Repeat(fmt.Sprint(i), 100_000))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("%s/api/v1/connectors/%v/files", w.server.URL, id), strings.NewReader(body))
			if err != nil {
				panic(err)
			}
			r.Header.Set("Authorization", "Bearer "+me.token)
			r.Header.Set("Content-Type", kind)
			answer, err := http.DefaultClient.Do(r)
			if err != nil || answer.StatusCode != http.StatusAccepted {
				t.Errorf("%v %v", answer, err)
				return
			}
			_ = answer.Body.Close()
		})
	}
	wait.Wait()
	w.dropped()
	require.Equal(t, []string{"a.md"}, me.fileNames(id))
	require.Equal(t, 1, w.objects())
	last := one[string](w, `SELECT after ->> 'sha256' FROM audit WHERE action = 'files.upload' ORDER BY id DESC LIMIT 1`)
	require.Equal(t, last, one[string](w, `SELECT to_jsonb(sha256) #>> '{}' FROM uploaded_files`))
	require.Equal(t, "1 100000 0", one[string](w, `SELECT concat_ws(' ', files, bytes, left_bytes) FROM upload_places`))
}

func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.UploadMaxFiles, c.UploadMaxMB, c.UploadOwnerMaxMB = 3, 2, 3 })
	me := w.as(7, identity.User)
	first, second, mib := me.uploader(), me.uploader(), strings.Repeat("x", 1<<20)
	require.Equal(t, http.StatusAccepted, me.upload(first, "a", "1", "b", "1", "c", "1").status)
	r := me.upload(first, "d", "1")
	me.refused(422, "invalid", r)
	require.Contains(t, r.text, "API_UPLOAD_MAX_FILES")
	require.Equal(t, http.StatusAccepted, me.upload(first, "a", mib).status, "replaced, not added")
	me.refused(413, "too-large", me.upload(first, "b", mib))
	require.Equal(t, http.StatusAccepted, me.upload(second, "a", mib).status)
	r = me.upload(second, "b", mib)
	me.refused(413, "too-large", r)
	require.Contains(t, r.text, "API_UPLOAD_OWNER_MAX_MB")
	require.Equal(t, http.StatusAccepted, w.as(8, identity.User).upload(w.as(8, identity.User).uploader(), "a", mib).status, "another owner's")
	for range 2 {
		require.Equal(t, http.StatusAccepted, me.do("DELETE", fmt.Sprintf("/connectors/%v/files/a", second), nil, "If-Match", "*").status)
		r = me.upload(second, "a", mib)
		require.Equal(t, http.StatusAccepted, r.status, r.text)
	}
	require.Equal(t, http.StatusAccepted, me.do("DELETE", fmt.Sprintf("/connectors/%v/files/a", second), nil, "If-Match", "*").status)
	r = me.upload(second, "a", "1")
	me.refused(422, "invalid", r)
	require.Contains(t, r.text, "of late", "what is replaced and deleted again and again fills no disk")
	w.dropped()
	require.Equal(t, http.StatusAccepted, me.upload(second, "a", "1").status)
}

func TestAFileReplacesALargeOneOfItsNameWhereThereIsLittleRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.UploadMaxMB, c.UploadOwnerMaxMB = 1, 1 })
	me := w.as(7, identity.User)
	id := me.uploader()
	large := strings.Repeat("word ", 150_000)
	for _, content := range []string{large, large + "more"} {
		require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", content).status)
	}
	require.Equal(t, []string{"a.md"}, me.fileNames(id))
}

// Of a document that was stored before, who was given its connector sees nothing, and so not why it failed.
func TestWhoIsGivenAConnectorSeesNotWhyAFileHadFailedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs, me := w.as(8, identity.User), w.as(7, identity.User)
	id := theirs.uploader()
	require.Equal(t, http.StatusAccepted, theirs.upload(id, "a.md", "# Okapis").status)
	w.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) SELECT id, 'a.md', 'failed', 'what was theirs', config_version FROM connectors`)
	w.exec(`UPDATE connectors SET user_id = 7`)
	require.Empty(t, me.get(fmt.Sprintf("/connectors/%v/documents", id))["documents"])
	require.NotContains(t, me.do("GET", fmt.Sprintf("/connectors/%v/files", id), nil).text, "what was theirs")
	require.NotContains(t, me.do("GET", fmt.Sprintf("/connectors/%v/files/a.md", id), nil).text, "what was theirs")
}

func TestWhereNothingIsUploadedTheAnswerSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	folder := me.do("POST", "/connectors", map[string]any{"name": "x", "type": "file", "config": map[string]any{"url": "file:///srv"}})
	r := me.upload(folder.body["id"], "a.md", "x")
	me.refused(409, "conflict", r)
	require.Contains(t, r.text, "upload:")
	require.Equal(t, http.StatusOK, me.do("POST", fmt.Sprintf("/connectors/%v/disable", id), nil).status)
	me.refused(409, "conflict", me.upload(id, "a.md", "x"))
	me.refused(404, "not-found", me.do("DELETE", fmt.Sprintf("/connectors/%v/files/a.md", id), nil, "If-Match", "*"))
	me.refused(404, "not-found", me.upload(999, "a.md", "x"))
	require.Zero(t, w.objects())

	none := newWorld(t, func(c *api.Config) { c.Uploads.URL = "" })
	me = none.as(7, identity.User)
	r = me.upload(me.uploader(), "a.md", "x")
	me.refused(501, "not-set-up", r)
	require.Contains(t, r.text, "UPLOAD_URL")
}
