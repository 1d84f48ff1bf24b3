//go:build !race

package api_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// withJobs is a world with a type of jobs.
func withJobs(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	return w
}

func (w *world) job(name string, user int32) int32 {
	w.Helper()
	return one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ($1, 'word_count', $2) RETURNING id`, name, user)
}

func TestRunsOfJobsAreListedForAdministrators(t *testing.T) {
	t.Parallel()
	w := withJobs(t)
	w.ended(w.connector(7, "user"), 3)
	id := w.job("count", 7)
	w.exec(`SELECT moves.trigger_sync($1)`, id)
	try := movestest.Syncing(t, w.conn, id)
	w.exec(`SELECT moves.report($1, $2, 3, 3, 'done', ARRAY['one file was empty'])`, try.Run, try.ID)
	w.exec(`SELECT moves.end_job($1, $2, '{"words": 12}')`, try.Run, try.ID)
	w.ended(id, 2)
	w.exec(`SELECT moves.trigger_sync($1)`, id)
	open := movestest.Claim(w, w.conn, id)
	admin, super := w.as(9, identity.Admin), w.as(1, identity.Superadmin)
	want := one[[]string](w, `SELECT array_agg(id::text ORDER BY completed_at IS NOT NULL, completed_at DESC, id DESC) FROM scheduler_runs WHERE connector_id = $1`, id)
	require.Len(t, want, 4)
	require.Equal(t, open.String(), want[0])
	for _, size := range []int{1, 500} {
		var ids []string
		for _, v := range each(admin.listed(fmt.Sprintf("/jobs?page_size=%d", size), "runs"), "id") {
			ids = append(ids, v.(string))
		}
		require.Equal(t, want, ids)
	}
	done := super.listed("/jobs?page_size=5&status=completed", "runs")
	require.Len(t, done, 1)
	require.Equal(t, []any{map[string]any{"words": 12.0}, []any{"one file was empty"}, 3.0, "done"}, []any{done[0]["result"], done[0]["warnings"], done[0]["progress_total"], done[0]["progress_text"]})
	require.Empty(t, super.listed("/jobs?page_size=5&type=web", "runs"))
	me := w.as(7, identity.User)
	me.refused(403, "forbidden", me.do("GET", "/jobs", nil))
	token := admin.get("/runs?page_size=1")["next_page_token"].(string)
	admin.refused(422, "invalid", admin.do("GET", "/jobs?page_size=1&page_token="+token, nil))
}

func TestJobsAreListedByNameWithoutSources(t *testing.T) {
	t.Parallel()
	w := withJobs(t)
	w.connector(7, "user")
	b, a, second := w.job("b", 7), w.job("a", 8), w.job("a", 7)
	for _, size := range []int{1, 2, 500} {
		found := w.as(9, identity.Admin).listed(fmt.Sprintf("/admin/scheduled-jobs?page_size=%d", size), "scheduled_jobs")
		require.Equal(t, []any{float64(a), float64(second), float64(b)}, each(found, "id"))
	}
	w.exec(`UPDATE connectors SET name = 'c' WHERE id = $1`, a)
	w.exec(`DELETE FROM connectors WHERE id = $1`, second)
	require.Equal(t, []any{"b", "c"}, each(w.as(1, identity.Superadmin).listed("/admin/scheduled-jobs?page_size=1", "scheduled_jobs"), "name"))
	me := w.as(7, identity.User)
	me.refused(403, "forbidden", me.do("GET", "/admin/scheduled-jobs", nil))
}

func TestAJobIsShownChangedSwitchedAndTriggeredByItsName(t *testing.T) {
	t.Parallel()
	w := withJobs(t)
	id := w.job("a/b ü?", 7)
	path, super := "/admin/scheduled-jobs/"+url.PathEscape("a/b ü?"), w.as(1, identity.Superadmin)
	shown := super.do("GET", path, nil)
	require.Equal(t, []any{200, float64(id), "word_count"}, []any{shown.status, shown.body["id"], shown.body["type"]}, shown.text)
	require.Equal(t, super.do("GET", fmt.Sprintf("/connectors/%d", id), nil).header.Get("ETag"), shown.header.Get("ETag"))
	super.refused(428, "precondition-required", super.do("PATCH", path, map[string]any{"schedule_cron": "0 3 * * *"}))
	changed := super.do("PATCH", path, map[string]any{"schedule_cron": "0 3 * * *"}, "If-Match", shown.header.Get("ETag"))
	require.Equal(t, []any{200, "0 3 * * *"}, []any{changed.status, changed.body["schedule_cron"]}, changed.text)
	super.refused(412, "precondition-failed", super.do("PATCH", path, map[string]any{"name": "b"}, "If-Match", shown.header.Get("ETag")))
	require.Equal(t, "DISABLED", super.do("POST", path+"/disable", nil).body["status"])
	super.refused(409, "conflict", super.do("POST", path+"/trigger", nil))
	require.Equal(t, "ACTIVE", super.do("POST", path+"/enable", nil).body["status"])
	for range 2 {
		asked := super.do("POST", path+"/trigger", map[string]any{"parameters": map[string]any{"x": 1}}, "Idempotency-Key", "once")
		require.Equal(t, []any{202, float64(id)}, []any{asked.status, asked.body["connector_id"]}, asked.text)
	}
	require.Equal(t, "connectors.update,connectors.disable,connectors.enable,connectors.sync",
		one[string](w, `SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE person = 'user 1'`))
	require.Equal(t, 200, super.do("PATCH", path, map[string]any{"name": "b"}, "If-Match", "*").status)
	for _, gone := range []string{path, "/admin/scheduled-jobs/x%00", "/admin/scheduled-jobs/x"} {
		super.refused(404, "not-found", super.do("GET", gone, nil))
	}
	w.connector(7, "user") // a source that is called x
	super.refused(404, "not-found", super.do("GET", "/admin/scheduled-jobs/x/history", nil))
}

func TestARepeatedRequestByNameIsAnsweredWithTheJobThatItWasDoneTo(t *testing.T) {
	t.Parallel()
	w := withJobs(t)
	super := w.as(1, identity.Superadmin)
	for _, asked := range []string{"trigger", "disable"} {
		was := w.job("A", 7)
		first := super.do("POST", "/admin/scheduled-jobs/A/"+asked, nil, "Idempotency-Key", asked)
		w.exec(`UPDATE connectors SET name = 'B' WHERE id = $1`, was)
		now := w.job("A", 7)
		again := super.do("POST", "/admin/scheduled-jobs/A/"+asked, nil, "Idempotency-Key", asked)
		require.Equal(t, first.status, again.status)
		for _, r := range []reply{first, again} {
			id, is := r.body["connector_id"]
			if !is {
				id = r.body["id"]
			}
			require.EqualValues(t, was, id)
		}
		w.exec(`DELETE FROM connectors WHERE id = $1`, now)
	}
}

func TestJobsOfOneNameAreToldApartByTheirNumbers(t *testing.T) {
	t.Parallel()
	w := withJobs(t)
	first, second := w.job("count", 7), w.job("count", 8)
	for _, r := range []reply{
		w.as(9, identity.Admin).do("GET", "/admin/scheduled-jobs/count", nil), w.as(1, identity.Superadmin).do("POST", "/admin/scheduled-jobs/count/disable", nil),
	} {
		w.as(9, identity.Admin).refused(409, "conflict", r)
		require.Contains(t, r.text, fmt.Sprintf("connectors %d, %d.", first, second))
	}
	me := w.as(7, identity.User)
	me.refused(404, "not-found", me.do("GET", "/admin/scheduled-jobs/count", nil))
}

func TestTheHistoryOfAJobCountsEachSlot(t *testing.T) {
	t.Parallel()
	w := withJobs(t)
	w.exec(`INSERT INTO conditions (name, query) VALUES ('many', 'SELECT true')`)
	id := w.job("count", 7)
	other := w.job("other", 7)
	line := func(of int32, status, trigger, reason string, slots any, ago time.Duration) {
		w.exec(`INSERT INTO runs (id, connector_id, type, trigger, status, reason, missed_count, due_at, started_at, completed_at, picked_up_at, config_version)
			SELECT gen_random_uuid(), $1, 'word_count', $2, $3, nullif($4, ''), $5, m.at, m.at, m.at, CASE WHEN $5::integer IS NULL THEN m.at END, 1 FROM (SELECT clock_timestamp() - $6::interval AS at) m`,
			of, trigger, status, reason, slots, ago)
	}
	const day = 24 * time.Hour
	line(id, "completed", "schedule", "", nil, time.Hour)
	line(id, "completed", "manual", "", nil, 2*time.Hour)
	line(id, "completed", "schedule", "", nil, 3*time.Hour)
	line(id, "skipped", "schedule", "condition `many` not met", 144, day)
	line(id, "skipped", "schedule", "condition `few` not met", 3, day)
	line(id, "skipped", "schedule", "blackout `office` until 2026-02-06T18:00+01:00", 2, day)
	line(id, "failed", "schedule", "transient", nil, 2*day)
	line(id, "failed", "schedule", "condition failed", nil, 2*day)
	line(id, "missed", "schedule", "too late", 5, 3*day)
	line(id, "superseded", "manual", "cancelled", nil, 3*day)
	line(id, "failed", "schedule", "transient", nil, 8*day)
	line(other, "failed", "schedule", "transient", nil, time.Hour)
	w.exec(`INSERT INTO unmet_slots VALUES ($1, 'word_count', 1, 'condition x not met', clock_timestamp(), clock_timestamp(), 6, clock_timestamp(), clock_timestamp())`, id)
	admin := w.as(9, identity.Admin)
	history := admin.get("/admin/scheduled-jobs/count/history?page_size=4")
	s := history["statistics"].(map[string]any)
	require.Equal(t, []any{nil, nil}, []any{s["conditions_met"], s["conditions_unmet"]}, "it names none")
	w.exec(`UPDATE connectors SET condition = 'many' WHERE id = $1`, id) // which ends the line of unmet slots
	history = admin.get("/admin/scheduled-jobs/count/history?page_size=4")
	s = history["statistics"].(map[string]any)
	require.Equal(t, []any{166.0, 3.0, 155.0, 2.0, 5.0, 1.0, 0.6}, []any{s["total"], s["successful"], s["skipped"], s["failed"], s["missed"], s["superseded"], s["success_rate"]}, s)
	require.Equal(t, []any{3.0, 144.0, nil}, []any{s["conditions_met"], s["conditions_unmet"], s["looked_back_to"]}, "what ran by hand asked nothing")
	require.Len(t, history["runs"], 4)
	require.Len(t, admin.listed("/admin/scheduled-jobs/count/history?page_size=4", "runs"), 12)
	require.Len(t, admin.listed("/admin/scheduled-jobs/count/history?page_size=4&status=failed", "runs"), 3)
	require.Equal(t, 3.0, admin.get("/admin/scheduled-jobs/count/history?days=30")["statistics"].(map[string]any)["failed"])
	empty := admin.get("/admin/scheduled-jobs/other/history?days=1")["statistics"].(map[string]any)
	require.Equal(t, []any{1.0, 0.0}, []any{empty["failed"], empty["success_rate"]})
	admin.refused(422, "invalid", admin.do("GET", "/admin/scheduled-jobs/count/history?days=91", nil))
}

func TestTheStatisticsOfAJobSayHowFarTheyLookedBack(t *testing.T) {
	t.Parallel()
	w := withJobs(t)
	id := w.job("count", 7)
	w.exec(`INSERT INTO runs (id, connector_id, type, trigger, status, due_at, started_at, completed_at, config_version)
		SELECT gen_random_uuid(), $1, 'word_count', 'schedule', 'completed', m.at, m.at, m.at, 1 FROM generate_series(1, 10001) n, LATERAL (SELECT clock_timestamp() - make_interval(secs => n) AS at) m`, id)
	w.exec(`ANALYZE runs`)
	s := w.as(9, identity.Admin).get("/admin/scheduled-jobs/count/history")["statistics"].(map[string]any)
	require.Equal(t, 10_000.0, s["total"])
	require.Equal(t, one[time.Time](w, `SELECT min(started_at) FROM (SELECT started_at FROM runs ORDER BY started_at DESC LIMIT 10000) l`).UTC().Format(time.RFC3339Nano), s["looked_back_to"])
}
