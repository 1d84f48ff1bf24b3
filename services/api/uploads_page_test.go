//go:build !race

package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// uploads sends the form of a source with a file.
func (b *browser) uploads(id any, name, content string) (status int, text string) {
	b.Helper()
	kind, body := form(b, name, content)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, fmt.Sprintf("%s/sources/%v/files", b.server.URL, id), strings.NewReader(body))
	require.NoError(b, err)
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answered, err := b.client.Do(r)
	require.NoError(b, err)
	defer func() { require.NoError(b, answered.Body.Close()) }()
	page, err := io.ReadAll(answered.Body)
	require.NoError(b, err)
	return answered.StatusCode, string(page)
}

func TestFilesAreUploadedAndDeletedAtThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id, b := me.uploader(), me.signedIn()
	require.Contains(t, b.get(fmt.Sprintf("/sources/%v", id)).text, "Nothing was uploaded yet.")
	status, text := b.uploads(id, `<b>"a".md`, strings.Repeat("x", 200_000)) // more than the page's other forms have
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, "The files were uploaded.")
	require.Contains(t, text, "&lt;b&gt;&#34;a&#34;.md")
	require.Contains(t, text, "195.3 KiB")
	require.Contains(t, text, "waits for a sync")
	status, text = b.uploads(id, "a.pdf", "%PDF-1.7")
	require.Equal(t, http.StatusUnsupportedMediaType, status)
	require.Contains(t, text, "Markdown")
	status, _ = b.uploads(id, "", "x") // nothing was chosen
	require.Equal(t, http.StatusUnprocessableEntity, status)
	version := strings.Trim(tagOf(strings.Repeat("x", 200_000)), `"`)
	require.Contains(t, b.get(fmt.Sprintf("/sources/%v", id)).text, fmt.Sprintf(`name="version" value="%s"`, version))
	stale := b.do("POST", fmt.Sprintf("/sources/%v/files/delete", id), url.Values{"name": {`<b>"a".md`}, "version": {"0"}})
	require.Equal(t, http.StatusPreconditionFailed, stale.status, stale.text)
	gone := b.do("POST", fmt.Sprintf("/sources/%v/files/delete", id), url.Values{"name": {`<b>"a".md`}, "version": {version}})
	require.Equal(t, http.StatusOK, gone.status, gone.text)
	require.Contains(t, gone.text, "The file was deleted.")
	require.Empty(t, me.fileNames(id))

	w.exec(`UPDATE connectors SET scope = 'org' WHERE id = $1`, id)
	other := w.as(8, identity.User).signedIn()
	require.Equal(t, http.StatusAccepted, w.as(1, identity.Superadmin).upload(id, "a.md", "x").status)
	page := other.get(fmt.Sprintf("/sources/%v", id)).text
	require.Contains(t, page, "a.md")
	require.NotContains(t, page, `type="file"`, "who may not change it is shown no form")
	status, _ = other.uploads(id, "b.md", "x")
	require.Equal(t, http.StatusForbidden, status)
}

// A folder of many documents becomes a source of uploads: until semantic has removed them, its page is not to read all.
func TestAPageOfFilesReadsNoDocumentsButThoseOfItsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	require.Equal(t, 202, me.upload(id, "a.md", "# A").status)
	w.exec(`INSERT INTO documents (connector_id, source_id, status, config_version) SELECT $1 + i % 2 * 1000, 'f' || i || '.md', 'stored', 1 FROM generate_series(1, 20000) i`, id)
	w.exec(`ANALYZE documents, uploaded_files, upload_places`)
	w.exec(`SELECT set_config('echomind.request', '{"user_id": 7, "role": "user"}', false)`)
	rows, err := w.conn.Query(t.Context(), `EXPLAIN SELECT f.name, f.document, f.error FROM api.uploaded_files f WHERE f.connector_id = `+fmt.Sprint(id)+` AND f.name > '' ORDER BY f.name LIMIT 51`)
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Regexp(t, `Index Cond: \(\(?connector_id = [^\n]*source_id = `, strings.Join(plan, "\n"), "each document is looked up by its key")
}

func TestAFileIsNotCalledByCharactersThatNobodySees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	require.Equal(t, http.StatusUnprocessableEntity, me.upload(id, "\u200d", "# A").status, "it is refused of one of them")
	for _, name := range []string{"\u115f", "\u3164", "\uffa0", "\u2800", "list\u3164.md"} {
		require.Equal(t, http.StatusUnprocessableEntity, me.upload(id, name, "# A").status, "%q", name)
	}
}
