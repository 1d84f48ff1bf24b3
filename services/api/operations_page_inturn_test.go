//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestAllSourcesThatMatchAreChangedFromThePageAfterAPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker()
	w.connectors(30)
	w.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('Letters', 'file', 7)`)
	w.exec(`INSERT INTO connectors (name, type, user_id, scope) VALUES ($1, 'web', 8, 'org')`, hostile)
	b := w.as(7, identity.User).signedIn()
	list := b.get("/?type=web&zone=UTC")
	for _, action := range []string{"sync", "enable", "disable", "delete"} {
		require.Contains(t, list.text, fmt.Sprintf(`name="action" value="%s"`, action))
	}
	require.Contains(t, list.text, `<input type="hidden" name="type" value="web">`)

	page := b.get("/operations/new?action=disable&type=web&zone=UTC")
	require.Equal(t, http.StatusOK, page.status, page.text)
	w.harmless(page)
	require.Contains(t, page.text, "30 sources that you may change: sources of type web.")
	require.Contains(t, page.text, "1 more match that you see and may not change.")
	require.Contains(t, page.text, "and 25 more")
	require.Zero(t, one[int](w, `SELECT count(*) FROM operations`))
	form := formOf(w, page.text)
	shown := b.do("POST", "/operations", form)
	require.Equal(t, http.StatusOK, shown.status, shown.text)
	require.Regexp(t, `^/operations/[0-9]+$`, shown.at.Path)
	require.Equal(t, "3", shown.header.Get("Refresh"))
	require.Contains(t, shown.text, `<progress max="30" value="0"`)
	w.harmless(shown)
	again := b.do("POST", "/operations", form)
	require.Equal(t, shown.at.Path, again.at.Path, "a form that is sent again begins nothing")

	w.exec(`DELETE FROM connectors WHERE name = 'Source 1'`)
	w.finish(a)
	done := b.get(shown.at.Path)
	require.Empty(t, done.header.Get("Refresh"))
	require.Contains(t, done.text, `<progress max="30" value="30"`)
	require.Contains(t, done.text, "It is gone, or you do not see it any more.")
	require.NotContains(t, done.text, ">Cancel</button>")
	require.Contains(t, b.get("/operations").text, "Disable: sources of type web")
	require.Equal(t, 29, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`))

	form = formOf(w, b.get("/operations/new?action=enable&status=DISABLED").text)
	shown = b.do("POST", "/operations", form)
	stopped := b.do("POST", shown.at.Path+"/cancel", url.Values{"back": {shown.at.Path}})
	require.Equal(t, http.StatusOK, stopped.status)
	require.Contains(t, stopped.text, "What it has done stays done.")
	require.Equal(t, 29, one[int](w, `SELECT count(*) FROM connectors WHERE status = 'DISABLED'`))
}

func TestThePageOfAnOperationIsForItsUserAndEachActionForWhoMayDoIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connectors(3)
	w.exec(`INSERT INTO connectors (name, type, user_id) VALUES ($1, 'web', 7)`, hostile)
	mine := w.as(7, identity.User)
	path := mine.begins("disable", map[string]any{"name": hostile[:30]})
	require.Equal(t, http.StatusNotFound, w.as(8, identity.User).signedIn().get(path).status)
	require.NotContains(t, w.as(8, identity.User).signedIn().get("/operations").text, path)
	w.harmless(w.as(9, identity.Superadmin).signedIn().get(path))
	reads := w.as(7, identity.User, identity.Read).signedIn()
	require.NotContains(t, reads.get("/").text, "All that match")
	require.Equal(t, http.StatusOK, reads.get(path).status)
	require.NotContains(t, reads.get(path).text, ">Cancel</button>")
	require.Equal(t, http.StatusForbidden, reads.get("/operations/new?action=sync").status)
	require.Equal(t, http.StatusForbidden, reads.do("POST", path+"/cancel", url.Values{}).status)
	operates := w.as(7, identity.User, identity.Read, identity.Operate).signedIn()
	require.Equal(t, http.StatusForbidden, operates.get("/operations/new?action=delete").status)
	require.NotContains(t, operates.get("/").text, `value="delete"`)
	for _, wrong := range []string{"/operations/new?action=burn", "/operations/new"} {
		refused := operates.get(wrong)
		require.Equal(t, http.StatusUnprocessableEntity, refused.status, wrong)
		require.Contains(t, refused.text, "must be sync, enable, disable or delete")
	}
	for _, wrong := range []string{"/operations/0", "/operations/999", "/operations/x"} {
		require.Equal(t, http.StatusNotFound, operates.get(wrong).status, wrong)
	}
	require.Equal(t, http.StatusUnprocessableEntity, operates.get("/operations/new?action=sync&user_id=x").status)
	require.Equal(t, http.StatusForbidden, operates.do("POST", "/operations", url.Values{}, "Sec-Fetch-Site", "cross-site").status)
}
