//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// everyDocument goes through all pages, and returns the documents as connector/name.
func (c caller) everyDocument(query string) (all []string) {
	c.Helper()
	for token := ""; ; {
		page := c.get("/documents?" + query + token)
		for _, d := range page["documents"].([]any) {
			d := d.(map[string]any)
			all = append(all, fmt.Sprint(d["connector_name"], "/", d["source_id"]))
		}
		next, more := page["next_page_token"].(string)
		if !more {
			return all
		}
		token = "&page_token=" + next
	}
}

func TestDocumentsOfAllConnectorsThatSomebodySeesComeInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
	// Every seventh of 210 is of user 7, and some of these have no documents; one is the group's, one everybody's, and one was somebody else's before.
	w.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c' || n, CASE WHEN n % 2 = 0 THEN 'web' ELSE 'file' END, CASE WHEN n % 7 = 0 THEN 7 ELSE 8 END FROM generate_series(1, 210) n ORDER BY n`)
	w.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('group', 'web', 8, 'group', 'g'), ('everybody', 'web', 8, 'org', NULL), ('given', 'web', 8, 'user', NULL)`)
	w.exec(`INSERT INTO documents (connector_id, source_id, url, status, error, config_version)
		SELECT c.id, d || '.md', 'https://bob:hunter2@h.example/', CASE d WHEN 'c' THEN 'failed' ELSE 'stored' END, CASE d WHEN 'c' THEN 'not a PDF' END, c.config_version
		FROM connectors c, unnest('{a,ab,b,c}'::text[]) d WHERE c.id % 3 = 0 OR c.scope <> 'user' OR c.name = 'given'`)
	w.exec(`UPDATE connectors SET user_id = 7 WHERE name = 'given'`)
	w.exec(`INSERT INTO documents (connector_id, source_id, status, config_version) SELECT id, 'since.md', 'stored', config_version FROM connectors WHERE name = 'given'`)
	me, super := w.as(7, identity.User), w.as(1, identity.Superadmin)

	mine := me.everyDocument("page_size=7")
	want := []string{}
	for n := 21; n <= 210; n += 21 {
		want = append(want, fmt.Sprintf("c%d/a.md c%[1]d/ab.md c%[1]d/b.md c%[1]d/c.md", n))
	}
	want = append(want, "group/a.md group/ab.md group/b.md group/c.md everybody/a.md everybody/ab.md everybody/b.md everybody/c.md given/since.md")
	require.Equal(t, strings.Fields(strings.Join(want, " ")), mine, "and nothing of before it was given")
	require.Equal(t, mine, me.everyDocument("page_size=500"))
	require.Len(t, me.everyDocument("status=failed&page_size=5"), 12)
	require.Len(t, me.everyDocument("status=stored&prefix=a&page_size=5"), 24)
	require.Len(t, me.everyDocument("type=file&status=failed&page_size=1"), 5)
	require.Equal(t, []string{"c42/a.md", "c42/ab.md", "c42/b.md", "c42/c.md"}, me.everyDocument("connector_id=42&page_size=2"))
	require.Empty(t, me.everyDocument("connector_id=3"), "what one does not see is left out")
	require.Empty(t, me.everyDocument("connector_id=42&type=file"))
	require.Len(t, super.everyDocument("page_size=500"), 4*(70+3)+1)
	require.Len(t, super.everyDocument("type=web&status=failed&page_size=3"), 35+3)
	require.Len(t, w.as(9, identity.Admin).everyDocument("page_size=3"), 4)
	require.Equal(t, []string{"c42/a.md", "c42/ab.md"}, func() (names []string) {
		for _, d := range me.get("/connectors/42/documents?prefix=a")["documents"].([]any) {
			names = append(names, "c42/"+d.(map[string]any)["source_id"].(string))
		}
		return names
	}())

	page := me.do("GET", "/documents?page_size=1&status=failed", nil)
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.NotContains(t, page.text, "hunter2")
	me.refused(422, "invalid", me.do("GET", fmt.Sprintf("/documents?page_size=1&page_token=%v", page.body["next_page_token"]), nil))
	for path, field := range map[string]string{
		"/documents?prefix=a%00": "query.prefix", "/documents?type=%00": "query.type", "/runs?type=%00": "query.type",
		"/connectors?name=%00": "query.name", "/connectors?type=%ff": "query.type", "/connectors?scope_id=%00": "query.scope_id",
	} {
		refused := me.do("GET", path, nil)
		me.refused(422, "invalid", refused)
		require.Contains(t, refused.text, `"field":"`+field+`"`, path)
	}
	me.refused(422, "invalid", me.do("GET", "/documents?state=failed", nil))
	w.exec(`DELETE FROM connectors WHERE id = 21`)
	require.Len(t, me.everyDocument("status=failed"), 11)
	none := w.as(7, identity.User, identity.Write)
	none.refused(403, "forbidden", none.do("GET", "/documents", nil))
}
