//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// first is the first of a list of the answer to a question.
func (c caller) first(path, list string) map[string]any {
	c.Helper()
	return c.get(path)[list].([]any)[0].(map[string]any)
}

func TestWhoWroteWhatIsEverybodysIsForAdminsAndHowManyUseItForWhoSeesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	w.exec(`INSERT INTO calendars (name, time_zone, entries, created_by, updated_by) VALUES ('holidays', 'UTC', '[{"name": "x", "start": "2020-01-01", "rule": "FREQ=YEARLY"}]', 'ann', 'ben')`)
	w.exec(`INSERT INTO blackouts (name, calendar, mode, created_by, updated_by) VALUES ('office', 'holidays', 'defer', 'ann', 'ben')`)
	w.exec(`INSERT INTO conditions (name, query, created_by, updated_by) VALUES ('changed', 'SELECT true', 'ann', 'ben')`)
	w.exec(`INSERT INTO concurrency_limits (key, most, created_by, updated_by) VALUES ('gpu', 1, 'ann', 'ben')`)
	w.exec(`INSERT INTO connectors (name, type, user_id, scope, calendar, calendar_use, condition, schedule_cron, time_zone) VALUES ('j', 'word_count', 8, 'user', 'holidays', 'exclude', 'changed', '0 3 * * *', 'UTC')`)
	w.exec(`INSERT INTO blackout_holds (connector_id, asked, blackout, version, until, spread) VALUES (1, false, 'office', 1, now() + interval '1 h', '1 min'), (2, false, 'office', 1, now() - interval '1 h', '1 min')`)
	me, admin, super := w.as(7, identity.User), w.as(9, identity.Admin), w.as(1, identity.Superadmin)
	for path, list := range map[string]string{"/calendars": "calendars", "/blackouts": "blackouts"} {
		count := map[string]string{"/calendars": "connectors", "/blackouts": "held"}[path]
		mine, theirs, all := me.first(path, list), admin.first(path, list), super.first(path, list)
		require.Equal(t, []any{nil, nil, nil}, []any{mine["created_by"], mine["updated_by"], mine[count]}, path)
		require.Equal(t, []any{"ann", "ben", nil}, []any{theirs["created_by"], theirs["updated_by"], theirs[count]}, path)
		require.Equal(t, []any{"ann", "ben", 1.}, []any{all["created_by"], all["updated_by"], all[count]}, path)
		require.NotEmpty(t, mine["created_at"])
		one := super.get(path + "/" + all["name"].(string))
		require.Equal(t, []any{"ann", "ben", 1.}, []any{one["created_by"], one["updated_by"], one[count]}, path)
	}
	condition, limit := admin.first("/conditions", "conditions"), admin.first("/limits/keys", "limits")
	require.Equal(t, []any{"ann", "ben", 1., nil}, []any{condition["created_by"], condition["updated_by"], condition["connectors"], condition["query"]})
	require.Equal(t, []any{"ann", "ben"}, []any{limit["created_by"], limit["updated_by"]})
	require.Nil(t, me.first("/calendars", "calendars")["problem"])
}

func TestTypesAreListedWithKeysAndProviderAndWrittenBySuperadmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, admin, super := w.as(7, identity.User), w.as(9, identity.Admin), w.as(1, identity.Superadmin)
	body := map[string]any{"kind": "source", "max_concurrent_syncs": 3, "concurrency_keys": []string{"wiki:x"}, "provider": "wikimedia"}
	me.refused(403, "forbidden", me.do("PUT", "/types/wiki", body))
	admin.refused(403, "forbidden", admin.do("PUT", "/types/wiki", body))
	less := w.as(1, identity.Superadmin, identity.Write)
	less.refused(403, "forbidden", less.do("PUT", "/types/wiki", body))
	super.refused(412, "precondition-failed", super.do("PUT", "/types/wiki", body, "If-Match", "*"))
	made := super.do("PUT", "/types/wiki", body)
	require.Equal(t, http.StatusCreated, made.status, made.text)
	super.refused(428, "precondition-required", super.do("PUT", "/types/wiki", body))
	again := super.do("PUT", "/types/wiki", body, "If-Match", `"`+made.body["version"].(string)+`"`)
	require.Equal(t, []any{200, made.header.Get("ETag")}, []any{again.status, again.header.Get("ETag")})
	found := me.get("/types")["types"].([]any)
	wiki := found[len(found)-1].(map[string]any)
	require.Equal(t, []any{"wiki", "source", false, nil, 3., []any{"wiki:x"}, "wikimedia"},
		[]any{wiki["name"], wiki["kind"], wiki["system"], wiki["default_refresh_minutes"], wiki["max_concurrent_syncs"], wiki["concurrency_keys"], wiki["provider"]})
	for field, bad := range map[string]map[string]any{
		"body.kind":                 {"kind": "job"},
		"body.system":               {"kind": "source", "system": true},
		"body.concurrency_keys":     {"kind": "source", "concurrency_keys": []string{"https://joe:secret@host/"}},
		"body.provider":             {"kind": "source", "provider": "X"},
		"body.max_concurrent_syncs": {"kind": "source", "max_concurrent_syncs": -1},
	} {
		r := super.do("PUT", "/types/wiki", bad, "If-Match", "*")
		super.refused(422, "invalid", r)
		require.Contains(t, r.text, `"`+field+`"`)
	}
	super.refused(422, "invalid", super.do("PUT", "/types/ledger_retention", map[string]any{"kind": "job"}))
	super.refused(422, "invalid", super.do("PUT", "/types/tidy", map[string]any{"kind": "source", "system": true, "max_concurrent_syncs": 0}))
	require.Equal(t, http.StatusCreated, super.do("PUT", "/types/tidy", map[string]any{"kind": "job", "system": true, "max_concurrent_syncs": 0}).status)
	super.refused(422, "invalid", super.do("PUT", "/types/tidy", map[string]any{"kind": "job", "system": true, "max_concurrent_syncs": 1}, "If-Match", "*"))
	require.Equal(t, "types.create,types.create", one[string](w, `SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE action LIKE 'types.%' AND user_id = 1`))
}

func TestATypeHasAnotherVersionAfterEachChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(1, identity.Superadmin)
	put := func(most int, headers ...string) reply {
		return me.do("PUT", "/types/wiki", map[string]any{"kind": "source", "max_concurrent_syncs": most}, headers...)
	}
	seen := []string{put(5).header.Get("ETag")}
	for _, most := range []int{9, 5} { // two changes by somebody else
		changed := put(most, "If-Match", "*")
		require.Equal(t, http.StatusOK, changed.status, changed.text)
		require.NotContains(t, seen, changed.header.Get("ETag"))
		seen = append(seen, changed.header.Get("ETag"))
	}
	me.refused(412, "precondition-failed", put(7, "If-Match", seen[0]))
	w.exec(`UPDATE connector_types SET default_refresh_minutes = 60 WHERE name = 'wiki'`) // as the console does
	me.refused(412, "precondition-failed", put(7, "If-Match", seen[2]))
	types := me.get("/types")["types"].([]any)
	require.Equal(t, http.StatusOK, put(7, "If-Match", `"`+types[len(types)-1].(map[string]any)["version"].(string)+`"`).status)
}

func TestRunsAreListedOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, theirs := w.something(identity.Ownership{UserID: 7, Scope: "user"}), w.something(identity.Ownership{UserID: 8, Scope: "org"})
	w.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), c, 'web', 'new', now(), now(), now(), 'skipped', 1000 FROM unnest(ARRAY[$1, $2]::integer[]) c`, mine.id, theirs.id)
	w.something(identity.Ownership{UserID: 9, Scope: "user"})
	me, super := w.as(7, identity.User), w.as(1, identity.Superadmin)
	of := func(c caller, path string) (ids []int32) {
		for _, r := range c.get(path)["runs"].([]any) {
			ids = append(ids, int32(r.(map[string]any)["connector_id"].(float64)))
		}
		return ids
	}
	require.Equal(t, []int32{mine.id, mine.id}, of(me, "/runs?user_id=7"))
	require.Equal(t, []int32{theirs.id, theirs.id}, of(me, "/runs?user_id=8"))
	require.Empty(t, of(me, "/runs?user_id=9"), "what one does not see")
	require.Len(t, of(super, "/runs?user_id=9"), 1)
	page := super.get("/runs?user_id=7&page_size=1")
	require.Equal(t, []int32{mine.id}, of(super, "/runs?user_id=7&page_size=1&page_token="+page["next_page_token"].(string)))
	super.refused(422, "invalid", super.do("GET", "/runs?user_id=8&page_size=1&page_token="+page["next_page_token"].(string), nil))
}

func TestUsersAndWhomIssuersSignInAreListedForSuperadmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO users (user_id, role) VALUES (7, 'admin'), (30, 'user')`)
	w.exec(`INSERT INTO group_members (user_id, group_id, leads) VALUES (7, 'a', true), (7, 'b', false), (12, 'a', false), (12, 'c', false)`)
	w.exec(`INSERT INTO identities (issuer, subject, user_id, made_at) VALUES ('https://id.example', 'a', 7, NULL), ('https://id.example', 'b', NULL, NULL), ('header:x-user', 'z', 12, now())`)
	for _, c := range []caller{w.as(7, identity.User), w.as(7, identity.Admin), w.as(1, identity.Superadmin, identity.Operate)} {
		c.refused(403, "forbidden", c.do("GET", "/users", nil))
		c.refused(403, "forbidden", c.do("GET", "/users/links", nil))
	}
	super := w.as(1, identity.Superadmin)
	var users []any
	for path := "/users?page_size=1"; path != ""; {
		page := super.get(path)
		users = append(users, page["users"].([]any)...)
		path = ""
		if next, more := page["next_page_token"].(string); more {
			path = "/users?page_size=1&page_token=" + next
		}
	}
	require.Equal(t, []any{
		map[string]any{"user_id": 7., "role": "admin", "groups": []any{"a", "b"}, "leads": []any{"a"}},
		map[string]any{"user_id": 12., "role": nil, "groups": []any{"a", "c"}, "leads": []any{}},
		map[string]any{"user_id": 30., "role": "user", "groups": []any{}, "leads": []any{}},
	}, users)
	page := super.get("/users/links?page_size=2")
	require.Len(t, page["links"], 2)
	rest := super.get("/users/links?page_size=2&page_token=" + page["next_page_token"].(string))
	require.Equal(t, []any{map[string]any{"issuer": "https://id.example", "subject": "b", "user_id": nil, "made_at": nil}}, rest["links"])
	require.Equal(t, "a", super.first("/users/links?user_id=7", "links")["subject"])
}

func TestADocumentWhoseNameIsMaskedIsAPlaceByItsNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, other := w.something(identity.Ownership{UserID: 7, Scope: "user"}), w.something(identity.Ownership{UserID: 8, Scope: "user"})
	w.exec(`INSERT INTO documents (connector_id, source_id, status, config_version) SELECT c, n, 'stored', 1000
		FROM unnest(ARRAY[$1, $2]::integer[]) c, unnest(ARRAY['https://a.example/1', 'https://a.example/2?token=s3cret', 'https://a.example/3']) n`, c.id, other.id)
	me, path := w.as(7, identity.User), fmt.Sprintf("/connectors/%d/documents", c.id)
	all := me.get(path)["documents"].([]any)
	require.Nil(t, all[0].(map[string]any)["after_id"])
	masked := all[1].(map[string]any)
	require.NotContains(t, masked["source_id"], "s3cret")
	require.Equal(t, "https://a.example/3", me.first(path+"?after_id="+masked["after_id"].(string), "documents")["source_id"])
	theirs := one[string](w, `SELECT id::text FROM documents WHERE connector_id = $1 AND source_id LIKE '%token%'`, other.id)
	r := me.do("GET", path+"?after_id="+theirs, nil)
	me.refused(422, "invalid", r)
	require.Contains(t, r.text, "query.after_id")
}

func TestTheStatusIsForSuperadmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.something(identity.Ownership{UserID: 8, Scope: "user"})
	for _, c := range []caller{w.as(7, identity.User), w.as(7, identity.Admin), w.as(1, identity.Superadmin, identity.Write)} {
		c.refused(403, "forbidden", c.do("GET", "/status", nil))
	}
	found := w.as(1, identity.Superadmin).get("/status")
	require.Len(t, found["problems"], 1, "NATS is away, and hides nothing else")
	require.Contains(t, found["problems"].([]any)[0], "nats: it does not answer")
	require.Equal(t, "echomind-api", found["services"].([]any)[0].(map[string]any)["name"])
	require.Equal(t, 1., found["connectors"].([]any)[0].(map[string]any)["connectors"])
	require.Equal(t, 0., found["events"].(map[string]any)["dropped_status"])
}

func TestAStatusIsAnsweredWithoutThePartThatPostgresDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(1, identity.Superadmin)
	tx, err := testkit.Sessions(t, w.url).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE open_runs, key_waiters IN ACCESS EXCLUSIVE MODE; LOCK TABLE connectors IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	found := me.get("/status")
	require.NoError(t, tx.Rollback(t.Context()))
	problems := fmt.Sprint(found["problems"])
	for _, part := range []string{"connectors", "system_jobs", "keys_waited_for"} {
		require.Contains(t, problems, "no answer for "+part)
	}
	require.NotEmpty(t, found["services"])
	require.NotContains(t, problems, "events")
}

// Each row has a page of its own, so that a few thousand are a large table.
func TestOfVeryManyConnectorsTheStatusCountsTheFewAndEstimatesTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`ALTER TABLE connectors SET (fillfactor = 10)`)
	w.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, config) SELECT 'x', 'file', 7, NULL, jsonb_build_object('url', repeat('x', 900)) FROM generate_series(1, 2500)`)
	id := one[int32](w, `SELECT max(id) FROM connectors`)
	w.exec(`SELECT moves.disable($1, 'enough')`, id)
	w.exec(`SELECT moves.trigger_sync($1)`, id-1)
	movestest.Claim(w, w.conn, id-1)
	counted := map[string]map[string]any{}
	for _, c := range w.as(1, identity.Superadmin).get("/status")["connectors"].([]any) {
		if of := c.(map[string]any); of["type"] == "file" {
			counted[of["status"].(string)] = of
		}
	}
	for _, status := range []string{"DISABLED", "PENDING"} {
		require.Equal(t, 1., counted[status]["connectors"], status)
		require.Equal(t, false, counted[status]["is_estimate"], status)
	}
	require.Equal(t, true, counted["ACTIVE"]["is_estimate"])
	require.InDelta(t, 2498, counted["ACTIVE"]["connectors"], 800)
	page := w.as(1, identity.Superadmin).signedIn().get("/system").text
	require.Regexp(t, `>file</a>.*Active.*<td data-label="Sources">about \d+</td>`, page)
	require.Contains(t, page, `<td data-label="Sources">1</td>`)
}
