//go:build !race

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/search/qdrant"
	"github.com/echomind/sync/testonly/movestest"
)

func TestASearchFindsWhatTheTableOfOwnershipSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	owned := map[int32]identity.Ownership{}
	for _, of := range []identity.Ownership{
		{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 7, Scope: "group", GroupID: "h"}, {UserID: 8, Scope: "org"},
		{UserID: 7, Scope: "user", System: true}, {UserID: 8, Scope: "org", System: true},
	} {
		id := w.source("x", of)
		w.stores(id, "a", "", "", fmt.Sprint("zebra of ", id))
		owned[id] = of
	}
	for _, role := range identity.Roles {
		for _, member := range []bool{false, true} {
			w.exec(`DELETE FROM group_members`)
			who := identity.Who{UserID: 7, Role: role}
			if member {
				w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
				who.Groups = []string{"g"}
			}
			me := w.as(7, role)
			for _, scope := range []string{"", "user", "group", "org"} {
				var want []int32
				for id, of := range owned {
					if who.Sees(of) && !of.System && (scope == "" || scope == of.Scope) { // jobs store no documents
						want = append(want, id)
					}
				}
				asked := "q=zebra"
				if scope != "" {
					asked += "&scope=" + scope
				}
				require.ElementsMatch(t, want, me.finds(asked), "%+v, scope %q", who, scope)
				require.EqualValues(t, len(want), me.get("/search?" + asked)["searched"].(map[string]any)["sources"], "%+v, scope %q", who, scope)
			}
			for id, of := range owned {
				require.Equal(t, who.Sees(of) && !of.System, len(me.finds(fmt.Sprintf("q=zebra&source=%d", id))) == 1, "%+v searches in %+v", who, of)
			}
		}
	}
	w.as(7, identity.User, identity.Write).refused(403, "forbidden", w.as(7, identity.User, identity.Write).do("GET", "/search?q=zebra", nil))
}

func TestWhatWasStoredBeforeAConnectorWasHandedOverIsFoundByWhoSawItThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, other, super := w.as(8, identity.User), w.as(7, identity.User), w.as(1, identity.Superadmin)
	id := w.source("x", identity.Ownership{UserID: 8, Scope: "user"})
	w.stores(id, "a", "", "", "zebra salaries")
	w.exec(`UPDATE connectors SET scope = 'org' WHERE id = $1`, id)
	require.Len(t, owner.finds("q=zebra"), 1)
	require.Empty(t, other.finds("q=zebra"))
	w.stores(id, "b", "", "", "zebra crossing")
	require.Len(t, other.finds("q=zebra"), 1)
	require.Len(t, owner.finds("q=zebra"), 2)
	w.exec(`UPDATE connectors SET scope = 'user', user_id = 9 WHERE id = $1`, id)
	require.Empty(t, owner.finds("q=zebra"))
	require.Empty(t, w.as(9, identity.User).finds("q=zebra"))
	require.Len(t, super.finds("q=zebra"), 2)
	w.exec(`DELETE FROM connectors WHERE id = $1`, id)
	require.Empty(t, super.finds("q=zebra"))
	w.exec(`INSERT INTO connectors (id, name, type, user_id) VALUES ($1, 'put back', 'web', 7)`, id)
	require.Empty(t, other.finds("q=zebra"))
	require.Empty(t, super.finds("q=zebra"))
}

// The command line and the API have one search.
func TestASearchRanksAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, all := w.source("mine", identity.Ownership{UserID: 7, Scope: "user"}), w.source("all", identity.Ownership{UserID: 8, Scope: "org"})
	for i := range 40 {
		w.stores([]int32{mine, all}[i%2], fmt.Sprint(i), "", "", fmt.Sprintf("Page %d of the handbook tells of zebras%s, leases and streams.", i, strings.Repeat(", and of zebras again", i%7)))
	}
	pool, err := pgxpool.New(t.Context(), w.url)
	require.NoError(t, err)
	defer pool.Close()
	found, err := search.New(&embed.Hash{}, config.Qdrant{}).Find(t.Context(), search.OfReader(pool, search.Reader{UserID: 7}), search.Question{Text: "zebras handbook", Limit: 100})
	require.NoError(t, err)
	require.Len(t, found.Hits, 40)
	hits := w.as(7, identity.User).get("/search?q=zebras+handbook&page_size=100")["hits"].([]any)
	require.Len(t, hits, 40)
	for i, h := range hits {
		h := h.(map[string]any)
		require.Equal(t, []any{found.Hits[i].SourceID, float64(found.Hits[i].ConnectorID)}, []any{h["source_id"], h["connector_id"]})
		require.InDelta(t, found.Hits[i].Score, h["score"], 1e-6)
	}
	require.Len(t, w.as(7, identity.User).finds("q=zebras+handbook"), 20)
}

func TestAHitSaysWhereItIsFromAndHowOldThatIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.source("Notes", identity.Ownership{UserID: 7, Scope: "user"})
	w.stores(id, "animals/zebra.md", "Animals", "https://bob:hunter2@h.example/zebra", "Größe: the Zebra runs, zebras stand")
	w.exec(`UPDATE connectors SET fresh_within_minutes = 60 WHERE id = $1`, id)
	never := w.source("Never", identity.Ownership{UserID: 7, Scope: "user"})
	movestest.Force(w, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp() - interval '2 hours', synced_version = config_version WHERE name = 'Notes'`)
	w.exec(`UPDATE documents SET updated_at = '2026-01-02 03:04:05+00'`)
	body := w.as(7, identity.User).get("/search?q=zebra")
	hit := body["hits"].([]any)[0].(map[string]any)
	require.Equal(t, "Notes", hit["connector"])
	require.Equal(t, "animals/zebra.md", hit["source_id"])
	require.Equal(t, "Animals", hit["title"])
	require.Equal(t, []any{"Animals", "Zebras"}, hit["heading_path"])
	require.NotContains(t, hit["url"], "hunter2")
	require.Equal(t, "2026-01-02T03:04:05Z", hit["stored_at"])
	require.Equal(t, "late", hit["freshness"].(map[string]any)["state"])
	require.InDelta(t, 7200, hit["freshness"].(map[string]any)["age_seconds"], 60)
	runes := []rune(hit["text"].(string))
	var marked []string
	for _, m := range hit["marks"].([]any) {
		m := m.(map[string]any)
		marked = append(marked, string(runes[int(m["start"].(float64)):int(m["end"].(float64))]))
	}
	require.Equal(t, []string{"Zebra", "zebras"}, marked)
	require.Equal(t, map[string]any{
		"sources": 2.0, "never_synced": 1.0, "never_synced_first": []any{map[string]any{"connector_id": float64(never), "name": "Never"}}, "whole": true,
	}, body["searched"])
}

func TestOfALongPartIsShownWhatMatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.source("x", identity.Ownership{UserID: 7, Scope: "user"})
	w.stores(id, "long", "", "", strings.Repeat("handbook ", 3000)+"quetzalcoatlus "+strings.Repeat("handbook ", 3000))
	w.stores(id, "one word", "", "", strings.Repeat("x", 64<<10))
	me := w.as(7, identity.User)
	hit := me.get("/search?q=quetzalcoatlus")["hits"].([]any)[0].(map[string]any)
	require.Contains(t, hit["text"], "quetzalcoatlus")
	require.Len(t, hit["text"], 1000)
	require.Equal(t, []any{true, true, 1}, []any{hit["cut_before"], hit["cut_after"], len(hit["marks"].([]any))})
	r := me.do("GET", "/search?q="+strings.Repeat("x", 500), nil)
	require.Equal(t, 200, r.status, r.text)
	require.Less(t, len(r.text), 5000)
}

func TestWhatIsWrongWithASearchIsSaidByItsField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	words := make([]string, 40)
	for i := range words {
		words[i] = fmt.Sprint("w", i)
	}
	for asked, field := range map[string]string{
		"": "query.q", "q=": "query.q", "q=%3F%21": "query.q", "q=%ff%fe": "query.q", "q=a%00b": "query.q", "q=" + strings.Repeat("x", 501): "query.q",
		"q=" + strings.Join(words, "+"): "query.q", "q=a&page_size=0": "query.page_size", "q=a&page_size=-1": "query.page_size", "q=a&page_size=101": "query.page_size",
		"q=a&page_size=x": "query.page_size", "q=a&scope=system": "query.scope", "q=a&scope=": "", "q=a&source=0": "query.source[0]", "q=a&source=1&source=-1": "query.source[1]",
		"q=a&source=": "query.source", "q=a&source=&source=1": "query.source", "q=a&q=b": "query.q", "q=a&scope=org&scope=user": "query.scope", "q=a&page_size=1&page_size=2": "query.page_size",
		"q=a&source=4294967297": "query.source[0]", "q=a&source=x": "query.source", "q=a" + strings.Repeat("&source=1", 101): "query.source", "q=a&page_token=x": "query.page_token",
	} {
		r := me.do("GET", "/search?"+asked, nil)
		if field == "" {
			require.Equal(t, 200, r.status, r.text)
			continue
		}
		me.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"`+field, asked)
		require.NotEmpty(t, r.body["fix"], asked)
	}
	for _, asked := range []string{"q=a" + strings.Repeat("&source=1", 10_000), "source=1&q=a" + strings.Repeat("&x", 10_000), "q=a&source=%zz"} {
		me.refused(422, "invalid", me.do("GET", "/search?"+asked, nil))
	}
	me.refused(404, "not-found", me.do("POST", "/search?q=a", nil))
}

func TestASearchAsksTheIndexAndPostgresHasTheWordOnEachHit(t *testing.T) {
	t.Parallel()
	w, collection, stop := indexed(t)
	owned := map[int32]string{}
	var points []qdrant.Point
	for _, of := range []struct {
		identity.Ownership
		scope string
	}{
		{identity.Ownership{UserID: 7, Scope: "user"}, "user_7"}, {identity.Ownership{UserID: 8, Scope: "user"}, "user_8"}, {identity.Ownership{UserID: 8, Scope: "group", GroupID: "g"}, "group_g"},
		{identity.Ownership{UserID: 8, Scope: "org"}, "org"}, {identity.Ownership{UserID: 8, Scope: "user"}, "org"}, // what is outdated there, or lies
	} {
		id := w.source("x", of.Ownership)
		document, try := w.stores(id, "a", "", "", "the zebra runs")
		vectors, err := (&embed.Hash{}).Embed(t.Context(), []string{"the zebra runs"})
		require.NoError(t, err)
		points = append(points, qdrant.Point{Scope: of.scope, ConnectorID: id, DocumentID: document, TryID: try, FirstNo: 1, No: 0, Words: []string{"zebra"}, Vector: vectors[0]})
		owned[id] = of.scope
	}
	require.NoError(t, collection.Upsert(t.Context(), 1, points))
	ids := func(which ...int) (all []int32) {
		for _, i := range which {
			all = append(all, points[i].ConnectorID)
		}
		return all
	}
	me, super := w.as(7, identity.User), w.as(1, identity.Superadmin)
	require.ElementsMatch(t, ids(0, 3), me.finds("q=zebra"))
	require.ElementsMatch(t, ids(0), me.finds("q=zebra&scope=user"))
	require.Empty(t, me.finds("q=zebra&scope=group"))
	require.ElementsMatch(t, ids(3), me.finds(fmt.Sprintf("q=zebra&source=%d&source=%d", ids(3)[0], ids(1)[0])))
	w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
	require.ElementsMatch(t, ids(2), me.finds("q=zebra&scope=group"))
	require.ElementsMatch(t, ids(0, 1, 2, 3, 4), super.finds("q=zebra"))
	require.ElementsMatch(t, ids(2), super.finds("q=zebra&scope=group"))
	require.ElementsMatch(t, ids(3), super.finds("q=zebra&scope=org"))
	stop()
	away := me.do("GET", "/search?q=zebra", nil)
	me.refused(503, "unavailable", away)
	require.Contains(t, away.text, "search index")
	require.NotContains(t, away.text, "127.0.0.1")
	require.NotEmpty(t, away.header.Get("Retry-After"))
	w.exec(`DELETE FROM search_index`)
	me.refused(503, "unavailable", me.do("GET", "/search?q=zebra", nil))
	require.Equal(t, 503, me.signedIn().get("/search?q=zebra").status)
}
