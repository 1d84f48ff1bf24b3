//go:build !race

package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestWhoeverSignsInIsShownTheCalendarsThatSchedulesMayName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('holidays', 'Europe/Berlin', '[{"name": "new year", "start": "2020-01-01", "rule": "FREQ=YEARLY"}]'),
		('spoiled', 'Europe/Berlin', '[{"name": "x", "start": "some day"}, {"name": 7}]'), ('empty', 'UTC', '[]')`)
	me := w.as(9, identity.User)
	var names []any
	for path := "/calendars?page_size=2"; path != ""; {
		page := me.get(path)
		for _, c := range page["calendars"].([]any) {
			names = append(names, c.(map[string]any)["name"])
		}
		path = ""
		if next, more := page["next_page_token"].(string); more {
			path = "/calendars?page_size=2&page_token=" + next
		}
	}
	require.Equal(t, []any{"empty", "holidays", "spoiled"}, names)

	holidays := me.get("/calendars/holidays")
	require.Equal(t, one[string](w, `SELECT version::text FROM calendars WHERE name = 'holidays'`), holidays["version"])
	require.Len(t, holidays["all"], 1)
	coming := holidays["coming"].([]any)
	require.NotEmpty(t, coming)
	first := coming[0].(map[string]any)
	require.Equal(t, "new year", first["name"])
	require.Regexp(t, `-12-31T23:00:00Z$`, first["from"], "in the calendar's zone")

	spoiled := me.get("/calendars/spoiled")
	require.Contains(t, spoiled["problem"], "entries are no list of entries")
	require.Equal(t, 2.0, spoiled["entries"])
	require.Empty(t, spoiled["coming"])
	require.Empty(t, me.get("/calendars/empty")["coming"])
	me.refused(404, "not-found", me.do("GET", "/calendars/other", nil))
}
