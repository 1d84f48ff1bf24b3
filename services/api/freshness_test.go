//go:build !race

package api_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// stale adds sources that are late for a day, late for an hour, soon late, and of which nobody has said how old they may be; and one of somebody else's that is late for longest.
func (w *world) stale() {
	w.Helper()
	w.exec(`INSERT INTO connectors (name, type, user_id, fresh_within_minutes) VALUES ('soon', 'web', 7, 60), ('new', 'web', 7, NULL), ('hour', 'web', 7, 60), ('old', 'web', 7, NULL), ('day', 'web', 7, 60),
		('others', 'web', 8, 60)`)
	movestest.Force(w, w.conn, `UPDATE connectors SET last_sync_at = now() - CASE name WHEN 'soon' THEN interval '50 minutes' WHEN 'new' THEN interval '1 hour' WHEN 'hour' THEN interval '2 hours'
		WHEN 'old' THEN interval '30 days' WHEN 'day' THEN interval '25 hours' ELSE interval '40 days' END`)
}

// named are the names on the pages of a list, in its order.
func (c caller) named(list string) (names []string) {
	c.Helper()
	for token := ""; ; {
		page := c.get(list + token)
		for _, found := range page["connectors"].([]any) {
			names = append(names, found.(map[string]any)["name"].(string))
		}
		next, more := page["next_page_token"].(string)
		if !more {
			return names
		}
		token = "&page_token=" + url.QueryEscape(next)
	}
}

func TestSourcesComeByFreshnessTheLatestFirstPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stale()
	mine := []string{"day", "hour", "soon", "new", "old"}
	for _, size := range []string{"1", "2", "50"} {
		require.Equal(t, mine, w.as(7, identity.User).named("/connectors?sort=freshness&page_size="+size))
		require.Equal(t, mine, w.as(7, identity.Admin).named("/connectors?sort=freshness&page_size="+size))
		require.Equal(t, append([]string{"others"}, mine...), w.as(1, identity.Superadmin).named("/connectors?sort=freshness&page_size="+size))
		require.Equal(t, []string{"day", "hour"}, w.as(7, identity.User).named("/connectors?sort=freshness&late=true&page_size="+size))
	}
	require.Equal(t, []string{"soon", "new", "hour", "old", "day"}, w.as(7, identity.User).named("/connectors?page_size=2"))
	w.exec(`UPDATE connectors SET fresh_within_minutes = 60 WHERE name = 'old'`)
	w.exec(`UPDATE connectors SET fresh_within_minutes = NULL WHERE name = 'day'`)
	require.Equal(t, []string{"old", "hour", "soon", "new", "day"}, w.as(7, identity.User).named("/connectors?sort=freshness&page_size=2"))
}

func TestAPageTokenIsOfItsOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stale()
	c := w.as(7, identity.User)
	token := url.QueryEscape(c.get("/connectors?sort=freshness&page_size=1")["next_page_token"].(string))
	c.refused(http.StatusUnprocessableEntity, "invalid", c.do("GET", "/connectors?page_size=1&page_token="+token, nil))
	c.refused(http.StatusUnprocessableEntity, "invalid", c.do("GET", "/connectors?sort=freshness&late=true&page_size=1&page_token="+token, nil))
	c.refused(http.StatusUnprocessableEntity, "invalid", c.do("GET", "/connectors?sort=name", nil))
}

func TestThePageOfSourcesHasTheLeastFreshFirstAndItsOrderInTheAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stale()
	b := w.as(7, identity.User).signedIn()
	order := func(path string) string {
		page := b.get(path)
		require.Equal(t, http.StatusOK, page.status, page.text)
		w.harmless(page)
		var names []string
		for _, found := range regexp.MustCompile(`class="name" href="[^"]*">([^<]+)<`).FindAllStringSubmatch(page.text, -1) {
			names = append(names, found[1])
		}
		return strings.Join(names, " ")
	}
	require.Equal(t, "day hour soon new old", order("/"))
	require.Equal(t, "soon new hour old day", order("/?sort=id"))
	require.Equal(t, "hour day", order("/?sort=id&late=true"))
	require.Contains(t, b.get("/?late=true").text, `href="/?late=true&amp;sort=id"`)
	require.Contains(t, b.get("/?sort=id").text, `name="sort" value="id"`)
}

func TestAPageByFreshnessIsLookedForInABoundedPartAlsoForAUserWhoSeesMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	w.exec(`INSERT INTO connectors (name, type, user_id, scope) SELECT 'c', 'web', 9, 'org' FROM generate_series(1, 10100) n`)
	w.exec(`INSERT INTO connector_freshness (connector_id, type, fresh_until, seen_by) SELECT id, type, created_at + id * interval '1 second', api.webhook_place(type, user_id, scope, scope_id) FROM connectors`)
	w.exec(`SET session_replication_role = 'origin'`)
	me := w.as(7, identity.User)
	require.Empty(t, me.named("/connectors?sort=freshness&name=zebra"))
	first := me.get("/connectors?sort=freshness&name=zebra")
	require.NotNil(t, first["next_page_token"], "it has not looked at all of them")
	require.Len(t, me.get("/connectors?sort=freshness")["connectors"], 50)
}
