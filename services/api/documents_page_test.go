//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestASourcesPageGroupsItsFailedDocumentsByReasonAndFetchesThemAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	w.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version)
		SELECT $1, format('f%s', lpad(n::text, 2, '0')), 'failed', 'https://site.example/' || n || ' answers 404', 1 FROM generate_series(1, 12) n`, id)
	w.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) VALUES ($1, 'z', 'failed', $2, 1)`, id, hostile)
	mine := w.as(7, identity.User).signedIn()
	for _, path := range []string{fmt.Sprintf("/sources/%d", id), fmt.Sprintf("/sources/%d/documents", id)} {
		page := mine.get(path)
		require.Equal(t, http.StatusOK, page.status, page.text)
		w.harmless(page)
		require.Contains(t, page.text, "<strong>12</strong>")
		require.Contains(t, page.text, `<span class="line">f01</span>`)
		require.NotContains(t, page.text, `<span class="line">f11</span>`)
		require.Contains(t, page.text, "and 2 more")
		require.Contains(t, page.text, `<use href="#i-error"/></svg>Failed`)
		require.Contains(t, page.text, "Fetch what failed again")
	}
	require.Equal(t, 0, one[int](w, `SELECT count(*) FROM audit WHERE action = 'connectors.sync'`))
	asked := mine.do("POST", fmt.Sprintf("/sources/%d/sync", id), url.Values{"back": {fmt.Sprintf("/sources/%d/documents", id)}})
	require.Equal(t, http.StatusOK, asked.status, asked.text)
	require.Contains(t, asked.text, "A sync was asked for")
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM audit WHERE action = 'connectors.sync' AND connector_id = $1 AND user_id = 7`, id))
}

func TestTheDocumentsOfASourceAreListedPageByPageWithTheirState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', 7, 'org') RETURNING id`)
	w.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version)
		SELECT $1, 'd' || lpad(n::text, 3, '0'), 'failed', 'cannot be read', 1 FROM generate_series(1, 60) n`, id)
	path := fmt.Sprintf("/sources/%d/documents", id)
	b := w.as(7, identity.User).signedIn()
	count := func(page shown) int { return strings.Count(page.text, `<th scope="row">`) }
	first := b.get(path)
	require.Equal(t, 50, count(first), first.text)
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(first.text)
	require.Len(t, next, 2)
	require.Equal(t, 10, count(b.get(strings.ReplaceAll(next[1], "&amp;", "&"))))
	require.Equal(t, 1, count(b.get(path+"?prefix=d007")))
	require.Equal(t, 0, count(b.get(path+"?status=stored")))
	require.Equal(t, http.StatusUnprocessableEntity, b.get(path+"?status=none").status)
	others := w.as(8, identity.User).signedIn().get(path)
	require.Equal(t, http.StatusOK, others.status)
	require.NotContains(t, others.text, "Fetch what failed again")
	w.exec(`UPDATE connectors SET scope = 'user' WHERE id = $1`, id)
	require.Equal(t, http.StatusNotFound, w.as(8, identity.User).signedIn().get(path).status)
}
