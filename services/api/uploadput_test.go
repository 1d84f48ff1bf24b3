package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// puts sends the content of a file.
func (c caller) puts(id any, name, content string, headers ...string) reply {
	c.Helper()
	return c.do("PUT", fmt.Sprintf("/connectors/%v/files/%s", id, name), content, append([]string{"Content-Type", "application/octet-stream"}, headers...)...)
}

func tagOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func TestAFileIsPutByItsNameAndReplacedByItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader("max_file_bytes", 1000)
	w.exec(`UPDATE connectors SET trigger_requested_at = NULL`)
	first := me.puts(id, "U%CC%88bersicht.md", "# Okapis", "Audit-Note", "why")
	require.Equal(t, http.StatusCreated, first.status, first.text)
	require.Equal(t, tagOf("# Okapis"), first.header.Get("ETag"))
	require.Equal(t, []any{"Übersicht.md", 8., "waiting", id}, []any{first.body["name"], first.body["bytes"], first.body["document"], first.body["connector_id"]})
	require.True(t, one[bool](w, `SELECT trigger_requested_at IS NOT NULL FROM connectors WHERE id = $1`, id))
	require.Equal(t, "user 7 why", one[string](w, `SELECT person || ' ' || note FROM audit WHERE action = 'files.upload'`))

	path := fmt.Sprintf("/connectors/%v/files/%%C3%%9Cbersicht.md", id)
	shown := me.do("GET", path, nil)
	require.Equal(t, []any{200, tagOf("# Okapis"), "user 7"}, []any{shown.status, shown.header.Get("ETag"), shown.body["uploaded_by"]}, shown.text)
	me.refused(428, "precondition-required", me.puts(id, "%C3%9Cbersicht.md", "# Quagga"))
	me.refused(412, "precondition-failed", me.puts(id, "%C3%9Cbersicht.md", "# Quagga", "If-Match", tagOf("another")))
	me.refused(412, "precondition-failed", me.puts(id, "%C3%9Cbersicht.md", "# Quagga", "If-None-Match", "*"))
	me.refused(412, "precondition-failed", me.puts(id, "new.md", "# Quagga", "If-Match", "*"))
	require.Equal(t, tagOf("# Okapis"), me.do("GET", path, nil).header.Get("ETag"))
	require.Equal(t, 1, w.objects(), "what is refused leaves nothing")

	w.exec(`UPDATE connectors SET trigger_requested_at = NULL`)
	second := me.puts(id, "%C3%9Cbersicht.md", "# Quagga", "If-Match", tagOf("# Okapis"), "Content-Type", "text/markdown")
	require.Equal(t, []any{200, tagOf("# Quagga"), 8.}, []any{second.status, second.header.Get("ETag"), second.body["bytes"]}, second.text)
	require.True(t, one[bool](w, `SELECT trigger_requested_at IS NOT NULL FROM connectors WHERE id = $1`, id))
	require.Equal(t, http.StatusOK, me.puts(id, "%C3%9Cbersicht.md", "# Zebras", "If-Match", "*").status)
	require.Equal(t, "8 8", one[string](w, `SELECT concat_ws(' ', before ->> 'bytes', after ->> 'bytes') FROM audit WHERE action = 'files.upload' AND before IS NOT NULL LIMIT 1`))
	require.Equal(t, "1 8 16", one[string](w, `SELECT concat_ws(' ', files, bytes, left_bytes) FROM upload_places`))

	for name, want := range map[string]int{"a%2Fb.md": 422, ".env": 422, "%20a": 422, "a.md": 201} {
		require.Equal(t, want, me.puts(id, name, "text").status, name)
	}
	me.refused(422, "invalid", me.puts(id, "b.md", ""))
	me.refused(413, "too-large", me.puts(id, "b.md", strings.Repeat("x", 1001)))
	me.refused(415, "media-type", me.puts(id, "b.md", "%PDF-1.7\n"))
	kind, body := form(t, "b.md", "text")
	me.refused(415, "media-type", me.puts(id, "b.md", body, "Content-Type", kind))
	for _, none := range []string{"b.md", ".env", "a%2Fb.md"} {
		me.refused(404, "not-found", me.do("GET", fmt.Sprintf("/connectors/%v/files/%s", id, none), nil))
	}
	w.dropped()
	require.Equal(t, 2, w.objects())
}

// curl -C sends what comes behind an offset, as if the rest of the file were there.
func TestAPartOfAFileIsNotTakenForTheWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	require.Equal(t, http.StatusCreated, me.puts(id, "a.md", "# Okapis").status)
	for _, tag := range []string{"*", tagOf("# Okapis")} {
		me.refused(400, "invalid", me.puts(id, "a.md", "apis and more", "If-Match", tag, "Content-Range", "bytes 4-16/17"))
	}
	me.refused(400, "invalid", me.puts(id, "b.md", "and more", "Content-Range", "bytes 4-11/12"))
	require.Equal(t, tagOf("# Okapis"), me.do("GET", fmt.Sprintf("/connectors/%v/files/a.md", id), nil).header.Get("ETag"))
}

// Of many who have read one version and replace it, one does.
func TestOneOfThoseWhoReplaceTheSameVersionOfAFileDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.UploadsAtOnce = 20 })
	me := w.as(7, identity.User)
	id := me.uploader()
	require.Equal(t, http.StatusCreated, me.puts(id, "a.md", "first").status)
	var wait sync.WaitGroup
	answers := make(chan int, 5)
	for i := range 5 {
		wait.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("%s/api/v1/connectors/%v/files/a.md", w.server.URL, id), strings.NewReader(strings.Repeat(fmt.Sprint(i), 50_000)))
			if err != nil {
				panic(err)
			}
			r.Header.Set("Authorization", "Bearer "+me.token)
			r.Header.Set("If-Match", tagOf("first"))
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				panic(err)
			}
			_ = answer.Body.Close()
			answers <- answer.StatusCode
		})
	}
	wait.Wait()
	close(answers)
	counted := map[int]int{}
	for status := range answers {
		counted[status]++
	}
	require.Equal(t, map[int]int{200: 1, 412: 4}, counted)
	w.dropped()
	require.Equal(t, 1, w.objects())
}

// mime/multipart itself holds 10 MB of headers for each part.
func TestThePartsOfAFormHaveShortHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	sends := func(before, head string) reply {
		const said = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s.md\"\r\n%s\r\n%s\r\n"
		body := before + fmt.Sprintf(said, "a", "", strings.Repeat("text ", 10_000)) + fmt.Sprintf(said, "b", head, "text") + "--b--\r\n"
		return me.do("POST", fmt.Sprintf("/connectors/%v/files", id), body, "Content-Type", "multipart/form-data; boundary=b")
	}
	require.Equal(t, http.StatusAccepted, sends("", "X-Long: "+strings.Repeat("x", 16_000)+"\r\n").status)
	for what, r := range map[string]reply{
		"a header": sends("", "X-Long: "+strings.Repeat("x", 16<<10)+"\r\n"), "a huge one": sends("", "X-Long: "+strings.Repeat("x", 5<<20)+"\r\n"),
		"many": sends("", strings.Repeat("X-Many: x\r\n", 2000)), "what stands before the first": sends(strings.Repeat("x\r\n", 100_000), ""),
	} {
		me.refused(400, "invalid", r)
		require.Contains(t, r.text, "16 KiB", what)
	}
	require.Equal(t, 2, w.objects())
}

func TestAFileIsDeletedByItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	require.Equal(t, http.StatusCreated, me.puts(id, "a.md", "# Okapis").status)
	path := fmt.Sprintf("/connectors/%v/files/a.md", id)
	me.refused(428, "precondition-required", me.do("DELETE", path, nil))
	require.Equal(t, http.StatusOK, me.puts(id, "a.md", "# Quagga", "If-Match", "*").status)
	me.refused(412, "precondition-failed", me.do("DELETE", path, nil, "If-Match", tagOf("# Okapis")))
	require.Equal(t, http.StatusOK, me.do("GET", path, nil).status)
	require.Equal(t, http.StatusAccepted, me.do("DELETE", path, nil, "If-Match", tagOf("# Quagga")).status)
	me.refused(404, "not-found", me.do("DELETE", path, nil, "If-Match", "*"))
}
