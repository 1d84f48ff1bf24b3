//go:build !race

// One thing after another for minutes: there is no race to find.

package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestAConnectorIsAddedChangedAndDeletedByItsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	added := me.do("POST", "/connectors", map[string]any{"name": "docs", "type": "web", "config": map[string]any{"url": "https://example.org"}}, "Audit-Note", "for the team")
	require.Equal(t, http.StatusCreated, added.status, added.text)
	require.EqualValues(t, 10_080, added.body["refresh_freq_minutes"], "the default of the type")
	require.Equal(t, "user 7", added.body["created_by"])
	require.NotEmpty(t, added.header.Get("ETag"))
	path := fmt.Sprintf("/connectors/%v", added.body["id"])

	seen := me.do("GET", path, nil)
	require.Equal(t, added.header.Get("ETag"), seen.header.Get("ETag"))
	me.refused(428, "precondition-required", me.do("PATCH", path, map[string]any{"name": "papers"}))
	me.refused(412, "precondition-failed", me.do("PATCH", path, map[string]any{"name": "papers"}, "If-Match", `"1-1"`))
	changed := me.do("PATCH", path, map[string]any{"name": "papers", "schedule_cron": "0 3 * * *", "time_zone": "Europe/Berlin"}, "If-Match", seen.header.Get("ETag"))
	require.Equal(t, http.StatusOK, changed.status, changed.text)
	require.Equal(t, []any{"papers", "0 3 * * *", nil}, []any{changed.body["name"], changed.body["schedule_cron"], changed.body["refresh_freq_minutes"]})
	require.NotEqual(t, seen.header.Get("ETag"), changed.header.Get("ETag"))
	me.refused(412, "precondition-failed", me.do("DELETE", path, nil, "If-Match", seen.header.Get("ETag")))

	require.Equal(t, map[string]any{"state": "never", "age_seconds": nil, "limit_minutes": nil, "how": "no sync has completed"}, changed.body["freshness"])
	wanted := me.do("PATCH", path, map[string]any{"fresh_within_minutes": 120}, "If-Match", changed.header.Get("ETag"))
	require.EqualValues(t, 120, wanted.body["fresh_within_minutes"], wanted.text)
	w.exec(`SELECT set_config('echomind.moving', 'on', false)`)
	w.exec(`UPDATE connectors SET last_sync_at = clock_timestamp() - interval '3 hours', synced_version = config_version WHERE id = $1`, int32(added.body["id"].(float64)))
	for _, at := range []string{path, path + "/status", path + "/why"} {
		fresh := me.get(at)["freshness"].(map[string]any)
		require.Equal(t, []any{"late", 120.0, "last synced 3h ago, may be 2h old"}, []any{fresh["state"], fresh["limit_minutes"], fresh["how"]}, at)
	}
	me.refused(422, "invalid", me.do("PATCH", path, map[string]any{"fresh_within_minutes": 0}, "If-Match", "*"))

	off := me.do("POST", path+"/disable", nil)
	require.Equal(t, []any{"DISABLED", "disabled by user 7"}, []any{off.body["status"], off.body["status_message"]})
	me.refused(409, "conflict", me.do("POST", path+"/sync", nil))
	require.Equal(t, "ACTIVE", me.do("POST", path+"/enable", nil).body["status"])
	asked := me.do("POST", path+"/sync", map[string]any{"allow_deletions": true})
	require.Equal(t, http.StatusAccepted, asked.status, asked.text)
	require.NotEmpty(t, asked.body["trigger_requested_at"])
	require.NotNil(t, me.get(path)["deletions_allowed_at"])

	audit := me.get("/audit?connector_id=" + fmt.Sprint(added.body["id"]))["entries"].([]any)
	var actions []string
	for _, e := range audit {
		e := e.(map[string]any)
		actions = append(actions, e["action"].(string))
		require.Equal(t, []any{"api", "user 7", 7.0}, []any{e["source"], e["person"], e["user_id"]})
	}
	require.Equal(t, []string{"connectors.sync", "connectors.enable", "connectors.disable", "connectors.update", "connectors.update", "connectors.create"}, actions)
	first := audit[len(audit)-1].(map[string]any)
	require.Equal(t, []any{"for the team", added.header.Get("X-Request-Id")}, []any{first["note"], first["request_id"]})

	require.Equal(t, http.StatusNoContent, me.do("DELETE", path, nil, "If-Match", me.do("GET", path, nil).header.Get("ETag")).status)
	me.refused(404, "not-found", me.do("GET", path, nil))
}

func TestSecretsAreSealedAndNeverShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	const hidden = "topsecretvalue"
	r := me.do("POST", "/connectors", map[string]any{"name": "d", "type": "google_drive", "refresh_freq_minutes": nil, "config": map[string]any{
		"source": "my_drive", "client_id": "app", "refresh_token": hidden, "note": "https://u:" + hidden + "@example.org",
	}})
	require.Equal(t, http.StatusCreated, r.status, r.text)
	id := fmt.Sprint(r.body["id"])
	require.NotContains(t, r.text+fmt.Sprint(me.get("/connectors"), me.get("/connectors/"+id), me.get("/audit?connector_id="+id)), hidden)
	require.Equal(t, "enc:v1", one[string](w, `SELECT left(config ->> 'refresh_token', 6) FROM connectors`))
	require.NotContains(t, one[string](w, `SELECT string_agg(a::text, '') FROM audit a`), hidden)
	shown := me.do("GET", "/connectors/"+id, nil)
	back := me.do("PATCH", "/connectors/"+id, map[string]any{"config": shown.body["config"]}, "If-Match", "*")
	me.refused(422, "invalid", back)
	require.Contains(t, back.text, "write the secret itself")
	for _, config := range []string{`{"url":"https://x.example/#/docs"}`, `{"text":"password: TEXT"}`, `{"headers":["X-Api-Key: KEY"]}`} {
		require.Equal(t, http.StatusOK, me.do("PATCH", "/connectors/"+id, `{"type":"web","config":`+config+`}`, "If-Match", "*").status)
		me.refused(422, "invalid", me.do("PATCH", "/connectors/"+id, map[string]any{"config": me.get("/connectors/" + id)["config"]}, "If-Match", "*"))
		require.JSONEq(t, config, one[string](w, `SELECT config::text FROM connectors`))
	}
	for _, config := range []string{`{"x": "\u0000"}`, `[]`, `"x"`, `{"Refresh_Token":"` + hidden + `"}`} {
		r := me.do("PATCH", "/connectors/"+id, `{"type":"google_drive","config":`+config+`}`, "If-Match", "*")
		me.refused(422, "invalid", r)
		require.NotContains(t, r.text, hidden)
	}
}

func TestAListComesInPagesThatAreBoundToItsFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c' || n, CASE n % 2 WHEN 0 THEN 'web' ELSE 'file' END, 1 + n % 3 FROM generate_series(1, 40) n`)
	me := w.as(2, identity.User)
	var names []string
	path := "/connectors?type=web&page_size=3"
	for {
		page := me.get(path)
		for _, c := range page["connectors"].([]any) {
			names = append(names, c.(map[string]any)["name"].(string))
		}
		next, more := page["next_page_token"].(string)
		if !more {
			break
		}
		me.refused(422, "invalid", me.do("GET", "/connectors?page_size=3&page_token="+next, nil))
		path = "/connectors?type=web&page_size=3&page_token=" + next
	}
	require.Equal(t, one[[]string](w, `SELECT array_agg(name ORDER BY id) FROM connectors WHERE user_id = 2 AND type = 'web'`), names)
	for _, wrong := range []string{"page_size=0", "page_size=501", "status=FINE", "user_id=0", "page_token=x", "unknown=1"} {
		require.Equal(t, 422, me.do("GET", "/connectors?"+wrong, nil).status, wrong)
	}
	require.Len(t, w.as(9, identity.Superadmin).get("/connectors?user_id=3")["connectors"], 13)
}

func TestWhatIsWrongWithAConnectorIsSaidByItsField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	for field, body := range map[string]string{
		"body.name":                 `{"name":"","type":"web"}`,
		"body.type":                 `{"name":"x","type":"nothing"}`,
		"body.scope":                `{"name":"x","type":"web","scope":"all"}`,
		"body.schedule_cron":        `{"name":"x","type":"web","schedule_cron":"every day"}`,
		"body.time_zone":            `{"name":"x","type":"web","schedule_cron":"0 3 * * *","time_zone":"Mars"}`,
		"body.refresh_freq_minutes": `{"name":"x","type":"web","refresh_freq_minutes":-1}`,
		"body.max_retries":          `{"name":"x","type":"web","max_retries":1001}`,
		"body.overlap":              `{"name":"x","type":"web","overlap":"both"}`,
		"body.config":               `{"name":"x","type":"web","config":{"a":"` + strings.Repeat("x", 70_000) + `"}}`,
		"body":                      `{"name":"x","type":"web","nonsense":1}`,
	} {
		r := me.do("POST", "/connectors", body)
		me.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"`+field, r.text)
	}
	me.refused(403, "forbidden", me.do("POST", "/connectors", `{"name":"x","type":"web","user_id":8}`))
	me.refused(403, "forbidden", me.do("POST", "/connectors", `{"name":"x","type":"web","scope":"org"}`))
	me.refused(403, "forbidden", me.do("POST", "/connectors", `{"name":"x","type":"web","scope":"group","scope_id":"g"}`))
	me.refused(403, "forbidden", me.do("POST", "/connectors", `{"name":"x","type":"word_count"}`))
	require.Equal(t, 413, me.do("POST", "/connectors", `{"name":"`+strings.Repeat("x", 1<<20)+`"}`).status)
	require.Equal(t, 400, me.do("POST", "/connectors", `{"name":`).status)
	require.Equal(t, 0, one[int](w, `SELECT count(*) FROM connectors`))
}

func TestAPageOfLargeConfigurationsIsShortAndHasANext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connectors (name, type, user_id, config) SELECT 'c' || n, 'web', 7, jsonb_build_object('a', repeat('x', 50000)) FROM generate_series(1, 6) n`)
	me, seen := w.as(7, identity.User), 0
	for path := "/connectors?page_size=500"; ; {
		page := me.get(path)
		found := page["connectors"].([]any)
		require.LessOrEqual(t, len(found), 2)
		seen += len(found)
		next, more := page["next_page_token"].(string)
		if !more {
			break
		}
		path = "/connectors?page_size=500&page_token=" + next
	}
	require.Equal(t, 6, seen)
}

func TestAPageOfLargeEntriesOrRunsIsShortAndHasANext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	w.exec(`INSERT INTO audit (source, login, person, action, object_id, connector_id, type, owner_id, scope, after)
		SELECT 'sql', 'x', 'x', 'x', 'x', $1, 'web', 7, 'user', jsonb_build_object('a', repeat('x', 100000)) FROM generate_series(1, 60)`, c.id)
	w.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version, error_message)
		SELECT gen_random_uuid(), $1, 'web', 'manual', now(), now() - make_interval(secs => n), now() - make_interval(secs => n), 'failed', 1, repeat('x', 8000) FROM generate_series(1, 200) n`, c.id)
	for path, want := range map[string]struct {
		all  string
		rows int
	}{
		fmt.Sprintf("/audit?page_size=500&connector_id=%d", c.id): {"entries", one[int](w, `SELECT count(*) FROM audit WHERE connector_id = $1`, c.id)},
		fmt.Sprintf("/connectors/%d/runs?page_size=500", c.id):    {"runs", 201},
		"/runs?page_size=500": {"runs", 201},
	} {
		seen := map[any]bool{}
		for token, pages := "", 1; ; pages++ {
			r := me.do("GET", path+token, nil)
			require.Less(t, len(r.text), 1<<20, path)
			for _, row := range r.body[want.all].([]any) {
				seen[row.(map[string]any)["id"]] = true
			}
			next, more := r.body["next_page_token"].(string)
			if !more {
				require.Greater(t, pages, 1, path)
				break
			}
			token = "&page_token=" + next
		}
		require.Len(t, seen, want.rows, path)
	}
}
