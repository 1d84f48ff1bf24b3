//go:build !race

package api_test

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// versionOn is the version that the forms of a page have.
func (w *world) versionOn(page shown) string {
	w.Helper()
	found := regexp.MustCompile(`name="version" value="([^"]+)"`).FindStringSubmatch(page.text)
	require.Len(w, found, 2, page.text)
	return html.UnescapeString(found[1])
}

// sends posts a form with an iCalendar file.
func (b *browser) sends(path, file string, fields map[string]string) shown {
	b.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		require.NoError(b, form.WriteField(name, value))
	}
	part, err := form.CreateFormFile("file", "holidays.ics")
	require.NoError(b, err)
	_, err = io.WriteString(part, file)
	require.NoError(b, err)
	require.NoError(b, form.Close())
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.server.URL+path, &body)
	require.NoError(b, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	answered, err := b.client.Do(r)
	require.NoError(b, err)
	defer func() { require.NoError(b, answered.Body.Close()) }()
	text, err := io.ReadAll(answered.Body)
	require.NoError(b, err)
	return shown{answered.StatusCode, answered.Header, string(text), answered.Request.URL}
}

const twoEvents = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Neujahr\r\nDTSTART;VALUE=DATE:20270101\r\nRRULE:FREQ=YEARLY\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:2\r\nSUMMARY:Off\r\nSTATUS:CANCELLED\r\nDTSTART;VALUE=DATE:20270102\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

func TestCalendarsAreAddedChangedAndDeletedOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin).signedIn()
	require.Contains(t, super.get("/administration").text, `href="/calendars"`)
	page := super.do("POST", "/calendars", url.Values{"name": {"holidays"}, "time_zone": {"Europe/Berlin"}, "entry_name": {hostile}, "start": {"2027-01-01"}, "rule": {"FREQ=YEARLY"}, "note": {"a new one"}})
	require.Equal(t, http.StatusOK, page.status, page.text)
	w.harmless(page)
	require.Equal(t, "/calendars/holidays", page.at.Path)
	for _, says := range []string{"The calendar was written", "Europe/Berlin", "2027-01-01", "FREQ=YEARLY", "1 Jan"} {
		require.Contains(t, page.text, says)
	}
	require.NotContains(t, page.text, "<img")
	require.Equal(t, "a new one", one[string](w, `SELECT note FROM audit WHERE object_id = 'holidays'`))
	twice := super.do("POST", "/calendars", url.Values{"name": {"holidays"}, "time_zone": {"UTC"}})
	require.Equal(t, http.StatusPreconditionFailed, twice.status)
	require.Contains(t, twice.text, "There is one of this name already")

	old := w.versionOn(page)
	page = super.do("POST", "/calendars/holidays/add", url.Values{"version": {old}, "entry_name": {"Eve"}, "start": {"2027-12-24T12:00"}, "end": {"2027-12-25T00:00"}})
	require.Contains(t, page.text, "2027-12-24T12:00")
	late := super.do("POST", "/calendars/holidays/add", url.Values{"version": {old}, "entry_name": {"x"}, "start": {"2027-12-26"}})
	require.Equal(t, http.StatusPreconditionFailed, late.status)
	wrong := super.do("POST", "/calendars/holidays/add", url.Values{"version": {w.versionOn(page)}, "start": {"someday"}})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
	page = super.do("POST", "/calendars/holidays/remove", url.Values{"version": {w.versionOn(page)}, "entry": {"0"}})
	require.NotContains(t, page.text, "FREQ=YEARLY</td>")
	require.Equal(t, "Eve", one[string](w, `SELECT entries -> 0 ->> 'name' FROM calendars WHERE jsonb_array_length(entries) = 1`))
	page = super.do("POST", "/calendars/holidays/zone", url.Values{"version": {w.versionOn(page)}, "time_zone": {"America/New_York"}})
	require.Equal(t, "America/New_York", one[string](w, `SELECT time_zone FROM calendars`))
	page = super.sends("/calendars/holidays/file", twoEvents, map[string]string{"version": w.versionOn(page), "time_zone": "Europe/Berlin"})
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Contains(t, page.text, "These are left out of the file")
	require.Contains(t, page.text, "Neujahr")
	require.Equal(t, "Europe/Berlin Neujahr", one[string](w, `SELECT time_zone || ' ' || (entries -> 0 ->> 'name') FROM calendars WHERE jsonb_array_length(entries) = 1`))
	require.Equal(t, http.StatusUnprocessableEntity, super.sends("/calendars/holidays/file", "no calendar", map[string]string{"version": w.versionOn(page)}).status)
	require.Equal(t, http.StatusUnprocessableEntity, super.sends("/calendars/holidays/file", strings.Repeat("x", 600<<10), map[string]string{"version": w.versionOn(page)}).status)

	w.exec(`INSERT INTO connectors (name, type, user_id, schedule_cron, calendar) VALUES ('x', 'web', 7, '0 3 * * *', 'holidays')`)
	used := super.do("POST", "/calendars/holidays/delete", url.Values{"version": {w.versionOn(page)}})
	require.Equal(t, http.StatusConflict, used.status)
	require.Contains(t, used.text, "is in use")
	w.exec(`UPDATE connectors SET calendar = NULL`)
	page = super.do("POST", "/calendars/holidays/delete", url.Values{"version": {w.versionOn(page)}})
	require.Contains(t, page.text, "The calendar was deleted")
	require.Equal(t, "/calendars", page.at.Path)
	page = super.sends("/calendars", twoEvents, map[string]string{"name": "filed", "time_zone": "Europe/Berlin"})
	require.Contains(t, page.text, "These are left out of the file")
	require.Contains(t, super.get("/calendars").text, `href="/calendars/filed"`)
}

func TestBlackoutWindowsAreAddedChangedAndDeletedOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin).signedIn()
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('always', 'UTC', '[{"name": "x", "start": "2020-01-01", "rule": "FREQ=DAILY"}]')`)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	form := url.Values{"name": {"quiet"}, "calendar": {"always"}, "mode": {"defer"}, "spread_minutes": {"30"}, "type": {"web"}, "user_id": {"7"}}
	page := super.do("POST", "/blackouts", form)
	require.Equal(t, http.StatusOK, page.status, page.text)
	w.harmless(page)
	for _, says := range []string{"The window was written", "Holds now", "sources of type web of user 7", "begin within 30 minutes"} {
		require.Contains(t, page.text, says)
	}
	require.Equal(t, http.StatusPreconditionFailed, super.do("POST", "/blackouts", form).status)
	form.Set("version", w.versionOn(page))
	form.Set("mode", "skip")
	form.Set("except_connectors", fmt.Sprint(id))
	page = super.do("POST", "/blackouts/quiet", form)
	require.Contains(t, page.text, "are skipped")
	require.Contains(t, page.text, "but for "+fmt.Sprint(id))
	require.Equal(t, http.StatusPreconditionFailed, super.do("POST", "/blackouts/quiet", form).status)
	for field, value := range map[string]string{"calendar": "none", "type": "none", "user_id": "x", "except_connectors": "x", "mode": "else"} {
		wrong := url.Values{"version": {w.versionOn(page)}, "calendar": {"always"}, "mode": {"skip"}}
		wrong.Set(field, value)
		require.Equal(t, http.StatusUnprocessableEntity, super.do("POST", "/blackouts/quiet", wrong).status, field)
	}
	require.Contains(t, super.get("/blackouts").text, `href="/blackouts/quiet"`)
	page = super.do("POST", "/blackouts/quiet/delete", url.Values{"version": {w.versionOn(page)}, "note": {"over"}})
	require.Contains(t, page.text, "The window was deleted")
	require.Zero(t, one[int](w, `SELECT count(*) FROM blackouts`))
}

func TestCalendarsWindowsAndConditionsAreShownToWhomRESTShowsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('all', 'UTC', '[{"name": "x", "start": "2020-01-01", "rule": "FREQ=DAILY"}]')`)
	w.exec(`INSERT INTO blackouts (name, calendar, mode) VALUES ('quiet', 'all', 'skip')`)
	w.exec(`INSERT INTO blackouts (name, calendar, mode, user_id) VALUES ('others', 'all', 'skip', 8)`)
	w.exec(`INSERT INTO conditions (name, query) VALUES ('ready', 'SELECT true')`)
	for _, role := range []identity.Role{identity.User, identity.Admin} {
		me := w.as(7, role).signedIn()
		for _, path := range []string{"/calendars", "/calendars/all", "/blackouts", "/blackouts/quiet"} {
			page := me.get(path)
			require.Equal(t, http.StatusOK, page.status, path)
			w.harmless(page)
			require.NotContains(t, page.text, `method="post" action="/calendars`, path)
			require.NotContains(t, page.text, `method="post" action="/blackouts`, path)
			require.NotContains(t, page.text, "others", path)
		}
		for _, path := range []string{"/calendars/none", "/blackouts/others", "/blackouts/none"} {
			require.Equal(t, http.StatusNotFound, me.get(path).status, path)
		}
		for _, path := range []string{"/calendars", "/calendars/all/add", "/calendars/all/delete", "/blackouts", "/blackouts/quiet", "/blackouts/quiet/delete"} {
			require.Equal(t, http.StatusForbidden, me.do("POST", path, url.Values{"name": {"x"}, "version": {"*"}, "calendar": {"all"}, "mode": {"skip"}, "time_zone": {"UTC"}, "start": {"2027-01-01"}}).status, path)
		}
		want := map[identity.Role]int{identity.User: http.StatusForbidden, identity.Admin: http.StatusOK}[role]
		require.Equal(t, want, me.get("/conditions").status)
		require.Equal(t, want, me.get("/conditions/ready").status)
		require.NotContains(t, me.get("/conditions/ready").text, "SELECT true")
	}
	super := w.as(1, identity.Superadmin).signedIn()
	require.Contains(t, super.get("/conditions/ready").text, "SELECT true")
	require.Contains(t, super.get("/blackouts").text, "others")
	looks := w.as(1, identity.Superadmin, identity.Read).signedIn()
	require.NotContains(t, looks.get("/calendars/all").text, `method="post" action="/calendars`)
	require.Equal(t, http.StatusForbidden, looks.do("POST", "/calendars/all/delete", url.Values{"version": {"*"}}).status)
}

func TestAWindowKeepsItsTypeWhenItsFormIsSavedThoughTheFormsListEndsBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('c', 'UTC', '[]')`)
	w.exec(`INSERT INTO blackouts (name, calendar, mode, type) VALUES ('b', 'c', 'skip', 'web')`)
	w.exec(`INSERT INTO connector_types (name) SELECT 'a' || n FROM generate_series(1, 1000) n`)
	super := w.as(1, identity.Superadmin).signedIn()
	page := super.get("/blackouts/b")
	require.Contains(t, page.text, "<option selected>web</option>")
	saved := super.do("POST", "/blackouts/b", url.Values{"version": {w.versionOn(page)}, "calendar": {"c"}, "mode": {"skip"}, "spread_minutes": {"10"}, "type": {"web"}})
	require.Equal(t, http.StatusOK, saved.status, saved.text)
	require.Equal(t, "web", one[string](w, `SELECT type FROM blackouts WHERE name = 'b'`))
}
