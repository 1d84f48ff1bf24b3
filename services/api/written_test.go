//go:build !race

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

var newYear = map[string]any{"time_zone": "Europe/Berlin", "entries": []any{map[string]any{"name": "new year", "start": "2020-01-01", "rule": "FREQ=YEARLY"}}}

func (w *world) calendar(name string) {
	w.Helper()
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ($1, 'UTC', '[{"name": "x", "start": "2020-01-01"}]')`, name)
}

// lastAudited is who did what last, of which request and why.
func (w *world) lastAudited() string {
	w.Helper()
	return one[string](w, `SELECT concat_ws(' ', source, person, user_id, token_id, request_id, note, action, object_id) FROM audit ORDER BY id DESC LIMIT 1`)
}

func (c caller) id() int { return int(c.get("/me")["token_id"].(float64)) }

func TestSuperadminsAloneWriteCalendarsAndBlackoutWindows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.calendar("there")
	w.exec(`INSERT INTO blackouts (name, calendar, user_id, mode) VALUES ('there', 'there', 8, 'skip')`)
	window := map[string]any{"calendar": "there", "user_id": 8, "mode": "skip"}
	const written = `SELECT count(*) FROM audit WHERE action ~ '^(calendars|blackouts)'`
	before := one[int](w, written)
	for _, c := range []caller{
		w.as(7, identity.User), w.as(7, identity.Admin), w.as(1, identity.Superadmin, identity.Read, identity.Operate, identity.Write), w.as(1, identity.User, identity.Administer),
	} {
		for _, name := range []string{"there", "other"} {
			c.refused(403, "forbidden", c.do("PUT", "/calendars/"+name, newYear, "If-Match", "*"))
			c.refused(403, "forbidden", c.do("PUT", "/calendars/"+name, newYear))
			c.refused(403, "forbidden", c.do("DELETE", "/calendars/"+name, nil, "If-Match", "*"))
			c.refused(403, "forbidden", c.do("PUT", "/blackouts/"+name, window, "If-Match", "*"))
			c.refused(403, "forbidden", c.do("DELETE", "/blackouts/"+name, nil, "If-Match", "*"))
		}
	}
	require.Equal(t, before, one[int](w, written))
	super := w.as(1, identity.Superadmin, identity.Administer) // answered in full without the scope read
	require.Equal(t, 201, super.do("PUT", "/calendars/new", newYear).status)
	require.Equal(t, 201, super.do("PUT", "/blackouts/new", window).status)
	require.Equal(t, 204, super.do("DELETE", "/blackouts/new", nil, "If-Match", "*").status)
	require.Equal(t, 204, super.do("DELETE", "/calendars/new", nil, "If-Match", "*").status)
}

func TestACalendarIsAddedReplacedAndDeletedByItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	super.refused(412, "precondition-failed", super.do("PUT", "/calendars/holidays", newYear, "If-Match", "*"))
	r := super.do("PUT", "/calendars/holidays", newYear, "If-None-Match", "*", "X-Request-Id", "r-1", "Audit-Note", "as agreed")
	require.Equal(t, 201, r.status, r.text)
	require.Equal(t, "Europe/Berlin", r.body["time_zone"])
	require.NotEmpty(t, r.body["coming"])
	require.Equal(t, fmt.Sprintf("api user 1 1 %d r-1 as agreed calendars.create holidays", super.id()), w.lastAudited())
	shown := super.do("GET", "/calendars/holidays", nil)
	first := r.header.Get("ETag")
	require.Equal(t, []any{first, r.body["all"]}, []any{shown.header.Get("ETag"), shown.body["all"]})
	require.Equal(t, "user 1, user 1", one[string](w, `SELECT created_by || ', ' || updated_by FROM calendars`))

	other := w.as(2, identity.Superadmin)
	changed := map[string]any{"time_zone": "UTC", "entries": []any{map[string]any{"name": "x", "start": "2030-01-01"}}}
	other.refused(412, "precondition-failed", other.do("PUT", "/calendars/holidays", changed, "If-None-Match", "*"))
	other.refused(428, "precondition-required", other.do("PUT", "/calendars/holidays", changed))
	other.refused(412, "precondition-failed", other.do("PUT", "/calendars/holidays", changed, "If-Match", `"1"`))
	same := other.do("PUT", "/calendars/holidays", newYear, "If-Match", first)
	require.Equal(t, []any{200, first}, []any{same.status, same.header.Get("ETag")}, "nothing has changed")
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM audit WHERE action LIKE 'calendars.%'`))
	r = other.do("PUT", "/calendars/holidays", changed, "If-Match", first, "X-Request-Id", "r-2")
	require.Equal(t, 200, r.status, r.text)
	require.NotEqual(t, first, r.header.Get("ETag"))
	require.Equal(t, fmt.Sprintf("api user 2 2 %d r-2 calendars.update holidays", other.id()), w.lastAudited())
	require.Equal(t, "user 1, user 2", one[string](w, `SELECT created_by || ', ' || updated_by FROM calendars`))
	super.refused(412, "precondition-failed", super.do("PUT", "/calendars/holidays", newYear, "If-Match", first))

	super.refused(428, "precondition-required", super.do("DELETE", "/calendars/holidays", nil))
	super.refused(412, "precondition-failed", super.do("DELETE", "/calendars/holidays", nil, "If-Match", first))
	require.Equal(t, 204, super.do("DELETE", "/calendars/holidays", nil, "If-Match", r.header.Get("ETag"), "X-Request-Id", "r-3").status)
	require.Equal(t, fmt.Sprintf("api user 1 1 %d r-3 calendars.delete holidays", super.id()), w.lastAudited())
	super.refused(404, "not-found", super.do("DELETE", "/calendars/holidays", nil, "If-Match", "*"))
}

func TestACalendarThatIsInUseIsNotDeletedAndItsUsersAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	w.calendar("used")
	var ids []string
	for range 12 {
		ids = append(ids, fmt.Sprint(one[int32](w, `INSERT INTO connectors (name, type, user_id, calendar) VALUES ('x', 'web', 7, 'used') RETURNING id`)))
	}
	w.exec(`INSERT INTO blackouts (name, calendar, mode) VALUES ('office', 'used', 'skip')`)
	remove := func() reply { return super.do("DELETE", "/calendars/used", nil, "If-Match", "*") }
	r := remove()
	super.refused(409, "conflict", r)
	require.Contains(t, r.body["detail"], "connectors "+strings.Join(ids[:10], ", ")+" and others and blackout windows office.")
	require.Contains(t, r.body["fix"], "calendar null")
	w.exec(`DELETE FROM connectors`)
	r = remove()
	super.refused(409, "conflict", r)
	require.Equal(t, `Calendar "used" is in use by blackout windows office.`, r.body["detail"])
	w.exec(`DELETE FROM blackouts`)
	require.Equal(t, 204, remove().status)
}

func TestWhatIsNoCalendarIsRefusedWithFieldValueAndFix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	day := func(more map[string]any) map[string]any {
		entry := map[string]any{"name": "x", "start": "2026-01-01"}
		for key, value := range more {
			entry[key] = value
		}
		return map[string]any{"time_zone": "UTC", "entries": []any{entry}}
	}
	many, long := make([]any, 1001), make([]any, 1000)
	for i := range many {
		many[i] = map[string]any{"name": "x", "start": "2026-01-01"}
	}
	for i := range long {
		long[i] = map[string]any{"name": strings.Repeat("x", 100), "start": "2026-01-01"}
	}
	for _, c := range []struct {
		body         any
		field, wants string
	}{
		{map[string]any{"time_zone": "Mars", "entries": []any{}}, "body.time_zone", `"Mars": write an IANA name`},
		{day(map[string]any{"start": "1.1.2026"}), "body.entries", `entry 1 (x): start "1.1.2026": must be a day`},
		{day(map[string]any{"rule": "FREQ=SECONDLY"}), "body.entries", "entry 1 (x)"},
		{day(map[string]any{"name": "a\x00b"}), "body.entries[0]", "NUL"},
		{day(map[string]any{"colour": "red"}), "body.entries[0].colour", ""},
		{map[string]any{"time_zone": "UTC", "entries": many}, "body.entries", "1000"},
		{map[string]any{"time_zone": "UTC", "entries": long}, "body.entries", "64 KiB"},
		{map[string]any{"time_zone": "UTC"}, "body", "entries"},
	} {
		r := super.do("PUT", "/calendars/x", c.body)
		super.refused(422, "invalid", r)
		wrong := r.body["errors"].([]any)[0].(map[string]any)
		require.Equal(t, c.field, wrong["field"], r.text)
		require.Contains(t, wrong["detail"], c.wants)
	}
	super.refused(422, "invalid", super.do("PUT", "/calendars/Not-a-name", newYear))
	super.refused(413, "too-large", super.do("PUT", "/calendars/x", `{"time_zone":"`+strings.Repeat("x", 600<<10)+`"}`))
	require.Zero(t, one[int](w, `SELECT count(*) FROM calendars`))
}

func TestABlackoutWindowIsAddedReplacedAndDeletedByItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, other := w.as(1, identity.Superadmin), w.as(2, identity.Superadmin)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('always', 'UTC', '[{"name": "x", "start": "2020-01-01", "rule": "FREQ=DAILY"}]')`)
	mine := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	window := map[string]any{"calendar": "always", "user_id": 7, "type": "web", "except_connectors": []any{mine}, "mode": "defer", "spread_minutes": 0}
	super.refused(412, "precondition-failed", super.do("PUT", "/blackouts/office", window, "If-Match", "*"))
	r := super.do("PUT", "/blackouts/office", window, "X-Request-Id", "r-1")
	require.Equal(t, 201, r.status, r.text)
	require.Equal(t, fmt.Sprintf("api user 1 1 %d r-1 blackouts.create office", super.id()), w.lastAudited())
	shown := super.do("GET", "/blackouts/office", nil)
	first := r.header.Get("ETag")
	require.Equal(t, []any{first, r.body}, []any{shown.header.Get("ETag"), shown.body})
	require.Equal(t, []any{true, "defer", 7.0, "web", nil, 0.0, []any{float64(mine)}},
		[]any{r.body["stands"], r.body["mode"], r.body["user_id"], r.body["type"], r.body["provider"], r.body["spread_minutes"], r.body["except_connectors"]})
	require.Equal(t, "office", w.as(7, identity.User).get("/blackouts/office")["name"])
	w.refused404(w.as(8, identity.Admin), "/blackouts/office")

	less := map[string]any{"calendar": "always", "mode": "skip"}
	other.refused(412, "precondition-failed", other.do("PUT", "/blackouts/office", less, "If-None-Match", "*"))
	other.refused(428, "precondition-required", other.do("PUT", "/blackouts/office", less))
	other.refused(412, "precondition-failed", other.do("PUT", "/blackouts/office", less, "If-Match", `"1"`))
	same := other.do("PUT", "/blackouts/office", window, "If-Match", first)
	require.Equal(t, []any{200, first}, []any{same.status, same.header.Get("ETag")})
	r = other.do("PUT", "/blackouts/office", less, "If-Match", first)
	require.Equal(t, []any{200, nil, 10.0, []any{}}, []any{r.status, r.body["user_id"], r.body["spread_minutes"], r.body["except_connectors"]}, r.text)
	require.Equal(t, "user 1, user 2", one[string](w, `SELECT created_by || ', ' || updated_by FROM blackouts`))
	super.refused(412, "precondition-failed", super.do("DELETE", "/blackouts/office", nil, "If-Match", first))
	super.refused(428, "precondition-required", super.do("DELETE", "/blackouts/office", nil))
	require.Equal(t, 204, super.do("DELETE", "/blackouts/office", nil, "If-Match", r.header.Get("ETag"), "X-Request-Id", "r-3").status)
	require.Equal(t, fmt.Sprintf("api user 1 1 %d r-3 blackouts.delete office", super.id()), w.lastAudited())
	super.refused(404, "not-found", super.do("DELETE", "/blackouts/office", nil, "If-Match", "*"))
}

func (w *world) refused404(c caller, path string) {
	w.Helper()
	c.refused(404, "not-found", c.do("GET", path, nil))
}

func TestWhatIsNoBlackoutWindowIsRefusedWithFieldValueAndFix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	w.calendar("c")
	for _, c := range []struct {
		more         map[string]any
		field, wants string
	}{
		{map[string]any{"calendar": "none"}, "body.calendar", `"none" is no calendar; name one`},
		{map[string]any{"type": "none"}, "body.type", `"none" is no type; name one`},
		{map[string]any{"provider": "none"}, "body.provider", `no type names the provider "none"`},
		{map[string]any{"provider": "a\x00b"}, "body.provider", "must be a name"},
		{map[string]any{"mode": "wait"}, "body.mode", "skip"},
		{map[string]any{"user_id": 0}, "body.user_id", "1"},
		{map[string]any{"user_id": 1 << 32}, "body.user_id", "2.147483647e+09"},
		{map[string]any{"spread_minutes": 1441}, "body.spread_minutes", "1440"},
		{map[string]any{"except_connectors": []any{1, 0}}, "body.except_connectors[1]", "0 is no number of a connector"},
		{map[string]any{"except_connectors": []any{999999}}, "body.except_connectors[0]", "999999 is no connector that you may see"},
		{map[string]any{"except_connectors": make([]int, 101)}, "body.except_connectors", "100"},
	} {
		body := map[string]any{"calendar": "c", "mode": "skip"}
		for key, value := range c.more {
			body[key] = value
		}
		r := super.do("PUT", "/blackouts/x", body)
		super.refused(422, "invalid", r)
		wrong := r.body["errors"].([]any)[0].(map[string]any)
		require.Equal(t, c.field, wrong["field"], r.text)
		require.Contains(t, wrong["detail"], c.wants)
	}
	require.Zero(t, one[int](w, `SELECT count(*) FROM blackouts`))
	w.exec(`INSERT INTO blackouts (name, calendar, mode) SELECT 'w' || n, 'c', 'skip' FROM generate_series(1, 100) n`)
	super.refused(409, "conflict", super.do("PUT", "/blackouts/x", map[string]any{"calendar": "c", "mode": "skip"}))
	require.Equal(t, 200, super.do("PUT", "/blackouts/w1", map[string]any{"calendar": "c", "mode": "defer"}, "If-Match", "*").status)
}

func TestACalendarIsAddedByOneOfManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, statuses := w.as(1, identity.Superadmin), make(chan int)
	for range 8 {
		go func() { statuses <- super.do("PUT", "/calendars/x", newYear, "If-None-Match", "*").status }()
	}
	seen := map[int]int{}
	for range 8 {
		seen[<-statuses]++
	}
	require.Equal(t, map[int]int{201: 1, 412: 7}, seen)
}

func TestOneConditionIsShownToAdministratorsAndItsQueryToSuperadmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO conditions (name, query, user_ids) VALUES ('some', 'SELECT 1 < 2', '{7,8}')`)
	me := w.as(7, identity.User)
	me.refused(403, "forbidden", me.do("GET", "/conditions/some", nil))
	shown := w.as(9, identity.Admin).get("/conditions/some")
	require.Equal(t, []any{nil, []any{7.0, 8.0}}, []any{shown["query"], shown["user_ids"]})
	super := w.as(1, identity.Superadmin)
	require.Equal(t, "SELECT 1 < 2", super.get("/conditions/some")["query"])
	w.refused404(super, "/conditions/other")
}

func TestAnICalendarFileIsReadAsWhatACalendarMayHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	const file = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Neujahr\r\nDTSTART;VALUE=DATE:20270101\r\nRRULE:FREQ=YEARLY\r\nEND:VEVENT\r\n" +
		"BEGIN:VEVENT\r\nUID:2\r\nSUMMARY:Umzug\r\nSTATUS:CANCELLED\r\nDTSTART;VALUE=DATE:20270102\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	read := func(c caller, zone, body string) reply {
		return c.do("POST", "/icalendar"+zone, body, "Content-Type", "text/calendar")
	}
	r := read(super, "?time_zone=Europe/Berlin", file)
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, []any{`"Umzug": it is cancelled`}, r.body["left_out"])
	delete(r.body, "left_out")
	require.Equal(t, 201, super.do("PUT", "/calendars/feiertage", r.body).status, "what it says is what PUT takes")
	require.Equal(t, "2027-12-31T23:00:00Z", super.get("/calendars/feiertage")["coming"].([]any)[1].(map[string]any)["from"])

	super.refused(422, "invalid", read(super, "", file))
	super.refused(422, "invalid", read(super, "?time_zone=Mars/Olympus", file))
	for _, bad := range []string{"x", "{}", "BEGIN:VCALENDAR\r\n", "\x00", strings.Replace(file, "FREQ=YEARLY", "FREQ=SECONDLY", 1), strings.Replace(file, "DTSTART;VALUE=DATE:20270101", "DTSTART:x", 1)} {
		super.refused(422, "invalid", read(super, "?time_zone=UTC", bad))
	}
	admin := w.as(2, identity.Admin)
	admin.refused(403, "forbidden", read(admin, "?time_zone=UTC", file))
}
