//go:build !race

// One thing after another for minutes: there is no race to find.

package api_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// withNATS is a world with streams.
func withNATS(t *testing.T) *world {
	t.Helper()
	server := testkit.NATS(t)
	conn, js, err := connect.Once(server.URL(), config.NATSAccess{})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	require.NoError(t, streams.EnsureStreams(t.Context(), js))
	return newWorld(t, func(c *api.Config) { c.NATSURL = server.URL() })
}

func TestWhyAConnectorDoesNotRunIsToldWithItsEvidence(t *testing.T) {
	t.Parallel()
	w := withNATS(t)
	me := w.as(7, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('x', 'web', 7, 60) RETURNING id`)
	path := fmt.Sprintf("/connectors/%d/why", id)
	why := me.get(path)
	require.Equal(t, []any{"scheduler_away", false, "ACTIVE", nil}, []any{why["cause"], why["running"], why["status"], why["run_id"]}, why)
	run := movestest.Claim(w, w.conn, id)
	w.exec(`UPDATE open_runs SET dispatched_at = clock_timestamp() - interval '1 minute'`)
	why = me.get(path)
	require.Equal(t, []any{"message_lost", run.String()}, []any{why["cause"], why["run_id"]}, why)
	require.Contains(t, fmt.Sprint(why["evidence"]), "no message of connector.sync.web is queued")
	try := movestest.PickUp(w, w.conn, id, run, time.Minute)
	why = me.get(path)
	require.Equal(t, []any{"fetching", true}, []any{why["cause"], why["running"]}, why)
	require.NotContains(t, fmt.Sprint(why), try.ID.String(), "who knows the try speaks for the run")
	w.exec(`SELECT moves.fail($1, $2, 'permanent', 'https://bob:hunter2@h.example/ is away')`, try.Run, try.ID)
	w.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) SELECT $1, n::text, 'failed', 'password=hunter2 is refused', 1 FROM generate_series(1, 3) n`, id)
	why = me.get(path)
	require.Equal(t, "failed_for_good", why["cause"], why)
	require.NotContains(t, fmt.Sprint(why), "hunter2")
	require.Equal(t, map[string]any{"documents": 3.0, "other_reasons": 0.0, "reasons": []any{map[string]any{"reason": "password=REDACTED is refused", "documents": 3.0}}}, why["failed"])
}

func TestWhyIsAnsweredWhileNATSIsAwayAndSaysNothingOfItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	for range 2 {
		why := me.get(fmt.Sprintf("/connectors/%d/why", c.id))
		require.Equal(t, "broker_away", why["cause"])
		require.NotContains(t, fmt.Sprint(why), "127.0.0.1")
	}
}

// Who has a place of a concurrency key is for who sees that connector.
func TestAFullKeyIsShownAndItsHolderToWhoSeesIt(t *testing.T) {
	t.Parallel()
	w := withNATS(t)
	other := w.something(identity.Ownership{UserID: 8, Scope: "user"})
	w.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('tenant-42', 1)`)
	w.exec(`INSERT INTO key_places (key, run_id, connector_id, user_id) VALUES ('tenant-42', $1, $2, 8)`, other.run, other.id)
	mine := one[int](w, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys) VALUES ('waits', 'web', 7, 60, '{tenant-42}') RETURNING id`)
	w.exec(`SELECT moves.park(ARRAY[$1::int], ARRAY['tenant-42'])`, mine)
	me, super := w.as(7, identity.User), w.as(1, identity.Superadmin)
	path := fmt.Sprintf("/connectors/%d", mine)
	why := me.get(path + "/why")
	require.Equal(t, "waits_for_key", why["cause"])
	require.Contains(t, fmt.Sprint(why), "concurrency key tenant-42 is full: 1 run in flight")
	require.NotContains(t, fmt.Sprint(why), fmt.Sprintf("connector %d", other.id))
	require.Contains(t, fmt.Sprint(super.get(path+"/why")), fmt.Sprintf("of connector %d", other.id))
	require.Contains(t, me.signedIn().get(fmt.Sprintf("/sources/%d", mine)).text, "the concurrency key may have more at once")
	require.Equal(t, []any{[]any{"tenant-42"}, "tenant-42"}, []any{me.get(path)["concurrency_keys"], me.get(path)["waits_for_key"]})
}

// Who has a lock is for who sees that connector.
func TestALockIsShownAndItsHolderToWhoSeesIt(t *testing.T) {
	t.Parallel()
	w := withNATS(t)
	mine, other := w.something(identity.Ownership{UserID: 7, Scope: "user"}), w.something(identity.Ownership{UserID: 8, Scope: "user"})
	holds := movestest.PickUp(w, w.conn, other.id, other.run, time.Minute)
	waits := movestest.PickUp(w, w.conn, mine.id, mine.run, time.Minute)
	w.exec(`SELECT FROM moves.acquire_lock($1, $2, 'gpu:1', '1 hour', true)`, holds.Run, holds.ID)
	w.exec(`SELECT FROM moves.acquire_lock($1, $2, 'gpu:1', '1 hour', true)`, waits.Run, waits.ID)
	me, super := w.as(7, identity.User), w.as(1, identity.Superadmin)
	why := me.get(fmt.Sprintf("/connectors/%d/why", mine.id))
	require.Contains(t, fmt.Sprint(why), "gpu:1")
	require.NotContains(t, fmt.Sprint(why), other.run.String())
	require.NotContains(t, fmt.Sprint(why), fmt.Sprintf("connector %d", other.id))
	require.Contains(t, fmt.Sprint(super.get(fmt.Sprintf("/connectors/%d/why", mine.id))), other.run.String())

	me.refused(403, "forbidden", me.do("GET", "/locks", nil))
	lock := func(c caller) map[string]any { return c.get("/locks")["locks"].([]any)[0].(map[string]any) }
	admin := lock(w.as(9, identity.Admin))
	require.Equal(t, []any{"gpu:1", nil, nil, nil, 1.0}, []any{admin["key"], admin["run_id"], admin["connector_id"], admin["connector_name"], admin["waiting"]})
	all := lock(super)
	require.Equal(t, []any{other.run.String(), float64(other.id), "x"}, []any{all["run_id"], all["connector_id"], all["connector_name"]})

	for _, c := range []caller{me, w.as(9, identity.Admin), w.as(1, identity.Superadmin, identity.Operate)} {
		c.refused(403, "forbidden", c.do("POST", "/locks/release", map[string]any{"key": "gpu:1"}))
	}
	super.refused(409, "conflict", super.do("POST", "/locks/release", map[string]any{"key": "gpu:2"}))
	super.refused(409, "conflict", super.do("POST", "/locks/release", map[string]any{"key": "gpu:1", "epoch": 999}))
	for range 2 {
		r := super.do("POST", "/locks/release", map[string]any{"key": "gpu:1"}, "Idempotency-Key", "once", "Audit-Note", "it hangs")
		require.Equal(t, []any{200, all["epoch"]}, []any{r.status, r.body["epoch"]}, r.text)
	}
	require.Equal(t, "user 1 it hangs", one[string](w, `SELECT string_agg(person || ' ' || note, ',') FROM audit WHERE action = 'locks.release'`))
}

func TestWhereAConnectorStandsIsToldInFewWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	status := me.get(fmt.Sprintf("/connectors/%d/status", c.id))
	require.Equal(t, []any{"PENDING", c.run.String(), float64(c.id)}, []any{status["status"], status["run_id"], status["id"]})
	require.NotContains(t, status, "config")
}

func TestDocumentsComeInPagesAndFailedOnesByReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	w.exec(`INSERT INTO documents (connector_id, source_id, url, status, error, config_version)
		SELECT $1, 'https://bob:hunter2@h.example/' || to_char(n, '000'), '', CASE WHEN n % 4 = 0 THEN 'failed' ELSE 'stored' END, CASE WHEN n % 8 = 0 THEN 'too large' WHEN n % 4 = 0 THEN 'not found: page 1000' || n END, 1
		FROM generate_series(1, 200) n`, c.id)
	path := fmt.Sprintf("/connectors/%d/documents", c.id)
	seen := map[any]bool{}
	for token := ""; ; {
		page := me.get(path + "?page_size=30&status=failed" + token)
		for _, d := range page["documents"].([]any) {
			d := d.(map[string]any)
			require.Equal(t, "failed", d["status"])
			require.NotContains(t, d["source_id"], "hunter2")
			seen[d["source_id"]] = true
		}
		next, more := page["next_page_token"].(string)
		if !more {
			break
		}
		me.refused(422, "invalid", me.do("GET", path+"?page_token="+next, nil))
		token = "&page_token=" + next
	}
	require.Len(t, seen, 50)
	require.Len(t, me.get(path + "?page_size=500")["documents"], 200)
	failed := me.get(path + "/failed")
	require.EqualValues(t, 50, failed["documents"])
	require.Len(t, failed["reasons"], 2)
	require.Equal(t, map[string]any{"reason": "too large", "documents": 25.0}, failed["reasons"].([]any)[1])
}

// Errors are texts of the service that stores, of any length.
func TestAPageOfLongErrorsIsShortAndHasANext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	w.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) SELECT $1, to_char(n, '000'), 'failed', repeat('a=b:c@d ', 7500), 1 FROM generate_series(1, 5) n`, c.id)
	seen := 0
	for token := ""; ; {
		page := me.get(fmt.Sprintf("/connectors/%d/documents?page_token=%s", c.id, token))
		require.LessOrEqual(t, len(page["documents"].([]any)), 2)
		seen += len(page["documents"].([]any))
		next, more := page["next_page_token"].(string)
		if !more {
			break
		}
		token = next
	}
	require.Equal(t, 5, seen)
}

func TestAPreviewShowsWhatAScheduleDoesAndWhatAnotherWould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	r := me.do("POST", "/connectors", map[string]any{"name": "x", "type": "web", "schedule_cron": "0 3 * * *", "time_zone": "Europe/Berlin"})
	require.Equal(t, 201, r.status, r.text)
	path := fmt.Sprintf("/connectors/%v/schedule/preview", r.body["id"])
	w.exec(`SELECT moves.disable($1)`, r.body["id"])
	require.Contains(t, me.get(path)["now"].(map[string]any)["note"], "it is disabled")
	past := me.get(path + "?past=true&hours=72")
	slots := past["now"].(map[string]any)["slots"].([]any)
	require.Len(t, slots, 3)
	require.Contains(t, slots[0].(map[string]any)["local_first"], "T03:00:00+0")
	require.Nil(t, past["set"])
	set := func(text string) reply {
		return me.do("GET", path+"?past=true&hours=72&set="+url.QueryEscape(text), nil)
	}
	other := set(`{"schedule_cron":"0 */12 * * *","time_zone":"UTC"}`)
	require.Equal(t, 200, other.status, other.text)
	require.Len(t, other.body["now"].(map[string]any)["slots"], 3)
	require.Len(t, other.body["set"].(map[string]any)["slots"], 6)
	interval := set(`{"refresh_freq_minutes":360,"spread_percent":0}`)
	require.Equal(t, 200, interval.status, interval.text)
	require.Equal(t, "every 360 minutes", interval.body["set"].(map[string]any)["schedule"])
	require.NotEmpty(t, interval.body["set"].(map[string]any)["slots"])
	many := set(`{"schedule_cron":"* * * * *"}`)
	require.Equal(t, true, many.body["set"].(map[string]any)["cut"], many.text)
	require.Len(t, many.body["set"].(map[string]any)["slots"], 500)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('all', 'UTC', '[{"name": "Off", "start": "2020-01-01", "rule": "FREQ=DAILY"}]'), ('spoiled', 'Mars', '[]')`)
	first := func(r reply) map[string]any {
		require.Equal(t, 200, r.status, r.text)
		return r.body["set"].(map[string]any)["slots"].([]any)[0].(map[string]any)
	}
	require.Equal(t, "calendar `all`: Off", first(set(`{"calendar":"all"}`))["reason"])
	require.Equal(t, "runs", first(set(`{"calendar":"all","calendar_use":"only"}`))["verdict"])
	me.refused(409, "conflict", set(`{"calendar":"spoiled"}`))
	for field, text := range map[string]string{
		"query.set.calendar": `{"calendar":"absent"}`, "query.set.calendar_use": `{"calendar_use":"never"}`,
		"query.set": `[]`, "query.set.schedule_cron": `{"schedule_cron":"x"}`, "query.set.time_zone": `{"time_zone":"Mars"}`, "query.set.overlap": `{"overlap":"both"}`,
		"query.set.catch_up_most": `{"catch_up_most":0}`, "query.set.name": `{"name":"y"}`,
	} {
		wrong := set(text)
		me.refused(422, "invalid", wrong)
		require.Contains(t, wrong.text, `"field":"`+field+`"`, text)
	}
	require.Equal(t, "0 3 * * *", one[string](w, `SELECT schedule_cron FROM connectors`))
}

func TestLimitsAreOnesOwnAndThoseOfEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES (7, 20), (8, 30)`)
	users := func(c caller) (all []any) {
		for _, l := range c.get("/limits")["limits"].([]any) {
			all = append(all, l.(map[string]any)["user_id"])
		}
		return all
	}
	require.Equal(t, []any{0.0, 7.0}, users(w.as(7, identity.User)))
	require.Equal(t, []any{0.0}, users(w.as(9, identity.Admin)))
	require.Equal(t, []any{0.0, 7.0, 8.0}, users(w.as(1, identity.Superadmin)))
}
