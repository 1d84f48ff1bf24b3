//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api"
)

func TestAWebhookIsForItsOwnerAndForSuperadmins(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	test := h.do("POST", h.path+"/test", nil)
	require.Equal(t, http.StatusAccepted, test.status, test.text)
	delivery := fmt.Sprintf("%s/deliveries/%.0f/replay", h.path, test.body["id"])
	each := func(c caller, want map[string]int) {
		t.Helper()
		for _, o := range []struct {
			method, path string
			body         any
		}{
			{"GET", h.path, nil}, {"GET", h.path + "/deliveries", nil}, {"POST", h.path + "/test", nil}, {"POST", delivery, nil}, {"POST", h.path + "/secret", nil},
			{"PATCH", h.path, map[string]any{"name": "y"}}, {"DELETE", h.path, nil},
		} {
			got := c.do(o.method, o.path, o.body, "If-Match", "*")
			require.Equal(t, want[o.method], got.status, "%s %s: %s", o.method, o.path, got.text)
		}
	}
	none := map[string]int{"GET": 404, "POST": 404, "PATCH": 404, "DELETE": 404}
	each(w.as(8, identity.User), none)
	each(w.as(8, identity.Admin), none)
	require.Empty(t, w.as(8, identity.Admin).get("/webhooks")["webhooks"])
	require.Len(t, w.as(8, identity.Superadmin).get("/webhooks?user_id=7")["webhooks"], 1)
	require.Empty(t, w.as(8, identity.Superadmin).get("/webhooks?user_id=6")["webhooks"])
	each(w.as(7, identity.User, identity.Read), map[string]int{"GET": 200, "POST": 403, "PATCH": 403, "DELETE": 403})
	boss := w.as(8, identity.Superadmin)
	require.Equal(t, http.StatusOK, boss.do("POST", h.path+"/secret", nil).status)
	require.Equal(t, http.StatusAccepted, boss.do("POST", delivery, nil).status)
	require.Equal(t, "y", boss.do("PATCH", h.path, map[string]any{"name": "y"}, "If-Match", "*").body["name"])
	require.EqualValues(t, 7, h.get(h.path)["user_id"], "it stays its owner's")
	require.Equal(t, http.StatusNoContent, boss.do("DELETE", h.path, nil, "If-Match", "*").status)
	each(w.as(7, identity.User), none)
}

func TestAChangeOfAWebhookIsOfAVersionOfIt(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	h := w.mine().hook(map[string]any{"url": "http://127.0.0.1:1/", "events": []string{"failed", "failed"}})
	tag := h.do("GET", h.path, nil).header.Get("ETag")
	h.refused(428, "precondition-required", h.do("PATCH", h.path, map[string]any{"name": "a"}))
	first := h.do("PATCH", h.path, map[string]any{"name": "a", "connector_id": nil}, "If-Match", tag)
	require.Equal(t, http.StatusOK, first.status, first.text)
	require.Equal(t, []any{"failed"}, first.body["events"])
	require.NotEqual(t, tag, first.header.Get("ETag"))
	h.refused(412, "precondition-failed", h.do("PATCH", h.path, map[string]any{"name": "b"}, "If-Match", tag))
	h.refused(412, "precondition-failed", h.do("DELETE", h.path, nil, "If-Match", tag))
	h.refused(422, "invalid", h.do("PATCH", h.path, map[string]any{"url": "https://10.0.0.1/"}, "If-Match", "*"))
	h.refused(422, "invalid", h.do("PATCH", h.path, map[string]any{"events": []string{"recovered"}}, "If-Match", "*"))
	h.refused(422, "invalid", h.do("PATCH", h.path, map[string]any{"events": []string{"odd"}}, "If-Match", "*"))
}

func TestASecretOfAWebhookIsShownOnceAndTheOneBeforeItSignsForADay(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	me := w.mine()
	key := []string{"Idempotency-Key", "k"}
	made := me.do("POST", "/webhooks", map[string]any{"url": r.URL}, key...)
	require.Regexp(t, `^whsec_[A-Za-z0-9+/]{43}=$`, made.body["secret"])
	again := me.do("POST", "/webhooks", map[string]any{"url": r.URL}, key...)
	require.Equal(t, made.body["id"], again.body["id"])
	require.NotContains(t, again.text, "whsec_")
	path := fmt.Sprintf("/webhooks/%.0f", made.body["id"])
	require.NotContains(t, fmt.Sprint(me.get(path), me.get("/webhooks"), w.as(1, identity.Superadmin).get("/audit")), "whsec_")
	require.NotContains(t, one[string](w.world, `SELECT secret FROM webhooks`), "whsec_")
	rotated := me.do("POST", path+"/secret", nil)
	require.Equal(t, http.StatusOK, rotated.status, rotated.text)
	require.NotEqual(t, made.body["secret"], rotated.body["secret"])
	test := func() message {
		require.Equal(t, http.StatusAccepted, me.do("POST", path+"/test", nil).status)
		w.send()
		got := r.took()
		require.Len(t, got, 1)
		require.Equal(t, "webhook.test", got[0].body.Type)
		return got[0]
	}
	m := test()
	require.True(t, carriesSignature(m, made.body["secret"].(string)))
	require.True(t, carriesSignature(m, rotated.body["secret"].(string)))
	w.exec(`UPDATE webhooks SET old_secret_until = clock_timestamp()`)
	m = test()
	require.False(t, carriesSignature(m, made.body["secret"].(string)))
	require.True(t, carriesSignature(m, rotated.body["secret"].(string)))
	require.NoError(t, w.service.Keep(t.Context()))
	require.Zero(t, one0(w, `SELECT count(old_secret)::integer FROM webhooks`))
	require.EqualValues(t, 1, one0(w, `SELECT count(*)::integer FROM audit WHERE action = 'webhooks.secret.rotate'`))
}

func TestSecretsOfWebhooksAreSealedAnewWithTheNewestKey(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	fresh, err := secret.NewKey()
	require.NoError(t, err)
	require.NoError(t, w.teller(fresh+","+w.key).Keep(t.Context()))
	w.service = w.teller(fresh, "127.0.0.0/8")
	h.do("POST", h.path+"/test", nil)
	w.send()
	got := r.took()
	require.Len(t, got, 1)
	require.True(t, carriesSignature(got[0], h.secret))
}

func TestAnAPIWithoutAKeyMakesNoWebhook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.SecretsKey = "" })
	me := w.as(7, identity.User)
	r := me.do("POST", "/webhooks", map[string]any{"url": "https://example.org"})
	me.refused(409, "conflict", r)
	require.Contains(t, r.body["fix"], "SECRETS_KEY")
}

func TestAUserHasTwentyWebhooksAndOfWhatWaitsTheOldestGivesWay(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	me := w.mine()
	for range 19 {
		me.hook(map[string]any{"url": "http://127.0.0.1:1/", "enabled": false})
	}
	h := me.hook(map[string]any{"url": "http://127.0.0.1:1/"})
	me.refused(409, "conflict", me.do("POST", "/webhooks", map[string]any{"url": "http://127.0.0.1:1/"}))
	w.exec(`INSERT INTO webhook_deliveries (webhook_id, message_id, type, body, next_at) SELECT $1, 'msg_' || repeat('a', 20), 'webhook.test', '{}', clock_timestamp() + interval '1 hour' FROM generate_series(1, 1005)`, h.id)
	require.Equal(t, http.StatusAccepted, h.do("POST", h.path+"/test", nil).status)
	require.EqualValues(t, 1000, one0(w, `SELECT count(next_at)::integer FROM webhook_deliveries`))
	require.Len(t, h.get(h.path + "/deliveries?state=dropped")["deliveries"], 6)
	require.EqualValues(t, 6, one0(w, `SELECT max(id)::integer FROM webhook_deliveries WHERE state = 'dropped'`))
	page := h.get(h.path + "/deliveries?page_size=500&state=pending")
	require.Len(t, h.get(h.path + "/deliveries?page_size=500&state=pending&page_token=" + page["next_page_token"].(string))["deliveries"], 500)
}

func TestOfAWebhookOrAConnectorThatIsDeletedNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	me := w.mine()
	one, other := w.source(), w.source()
	all, about := me.hook(map[string]any{"url": r.URL}), me.hook(map[string]any{"url": r.URL, "connector_id": one})
	w.is(one, "ERROR")
	w.is(other, "ERROR")
	w.look()
	left := func() string {
		t.Helper()
		return oneText(w, `SELECT concat_ws(' ', (SELECT count(*) FROM webhooks), (SELECT count(*) FROM webhook_turns), (SELECT count(*) FROM webhook_states), (SELECT count(*) FROM webhook_deliveries),
			(SELECT count(*) FROM webhook_faults))`)
	}
	require.Equal(t, "2 2 3 3 2", left())
	w.exec(`DELETE FROM connectors WHERE id = $1`, one)
	require.Equal(t, "1 1 1 1 1", left())
	require.Equal(t, http.StatusNotFound, about.do("GET", about.path, nil).status)
	w.tell()
	require.Len(t, r.took(), 1)
	require.Equal(t, http.StatusNoContent, all.do("DELETE", all.path, nil, "If-Match", "*").status)
	require.Equal(t, "0 0 0 0 1", left())
	w.exec(`UPDATE connectors SET name = 'y'`)
	w.is(other, "ACTIVE")
	me.hook(map[string]any{"url": r.URL})
	w.look()
	require.Equal(t, "1 1 0 0 0", left())
	require.Equal(t, "webhooks.create, webhooks.create, webhooks.delete, webhooks.delete, webhooks.create",
		oneText(w, `SELECT string_agg(action, ', ' ORDER BY id) FROM audit WHERE action LIKE 'webhooks.%'`))
	require.NotContains(t, oneText(w, `SELECT string_agg(after::text, ' ') FROM audit WHERE action = 'webhooks.create'`), r.URL+"\"")
}

func oneText(w *telling, sql string) string { return one[string](w.world, sql) }

func TestDeliveriesAreKeptForAWeek(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	h := w.mine().hook(map[string]any{"url": "http://127.0.0.1:1/"})
	w.exec(`INSERT INTO webhook_deliveries (webhook_id, message_id, type, body, state, ended_at) SELECT $1, 'msg_' || repeat('a', 20), 'webhook.test', '{}', 'delivered',
		clock_timestamp() - make_interval(days => i) FROM generate_series(5, 9) i`, h.id)
	require.NoError(t, w.service.Keep(t.Context()))
	require.Len(t, h.deliveries(), 2)
}

// A token that may do less than the webhook's maker must neither read what the webhook was told, nor have it told elsewhere.
func TestATokenOfALesserRoleSeesNothingByAWebhookOfItsUserThatHasAGreaterOne(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, mine := w.receiver(), w.receiver()
	h := w.as(9, identity.Superadmin).hook(map[string]any{"url": r.URL})
	id := w.source() // of user 7
	w.is(id, "ERROR")
	w.tell()
	require.Len(t, r.took(), 1)
	lesser := w.as(9, identity.User)
	require.NotContains(t, lesser.do("GET", h.path+"/deliveries", nil).text, "the board")
	require.Equal(t, http.StatusOK, lesser.do("PATCH", h.path, map[string]any{"url": mine.URL}, "If-Match", "*").status)
	w.is(id, "ACTIVE")
	w.tell()
	require.Empty(t, mine.took())
	require.Equal(t, "user", lesser.get(h.path)["role_now"])
}

// Many receivers know a sender by the path or the query of their URL.
func TestOfSomebodyElsesWebhookItIsShownWhereItLeadsAndNotHow(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	me := w.mine()
	h := me.hook(map[string]any{"url": "http://127.0.0.1:1/services/T0/B0/key?token=k"})
	other := w.as(9, identity.Superadmin)
	require.Equal(t, "http://127.0.0.1:1/services/T0/B0/key?token=k", me.get(h.path)["url"])
	require.Equal(t, "http://127.0.0.1:1/…", other.get(h.path)["url"])
	require.NotContains(t, other.do("GET", "/webhooks", nil).text, "token=k")
	other.refused(422, "invalid", other.do("PATCH", h.path, map[string]any{"url": "http://127.0.0.1:1/…"}, "If-Match", "*"))
	changed := other.do("PATCH", h.path, map[string]any{"name": "theirs"}, "If-Match", "*")
	require.Equal(t, http.StatusOK, changed.status)
	require.NotContains(t, changed.text, "token=k")
	require.Equal(t, "http://127.0.0.1:1/services/T0/B0/key?token=k", me.get(h.path)["url"], "it stays")
}
