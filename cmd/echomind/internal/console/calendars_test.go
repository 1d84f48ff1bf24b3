package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// icsFile is an iCalendar file with these events.
func icsFile(t *testing.T, events ...string) string {
	t.Helper()
	text := "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//test//EN\n"
	for i, e := range events {
		text += "BEGIN:VEVENT\nUID:" + string(rune('a'+i)) + "\nDTSTAMP:20250101T000000Z\n" + e + "\nEND:VEVENT\n"
	}
	path := filepath.Join(t.TempDir(), "calendar.ics")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text+"END:VCALENDAR\n", "\n", "\r\n")), 0o600))
	return path
}

func TestACalendarIsImportedByAnAdministratorAndNamedBySchedules(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	admin, person := u.as("echomind_administrator"), u.as(consoleRole)
	weekdays := icsFile(t, "SUMMARY:Werktag\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR")
	everyDay := icsFile(t, "SUMMARY:Wartung\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=DAILY", "SUMMARY:off\nDTSTART;VALUE=DATE:20200101\nSTATUS:CANCELLED")

	require.Contains(t, person.run("calendars", "import", "work", weekdays, "--time-zone", "Europe/Berlin").stderr, "must be a member of role echomind_administrator")
	require.Contains(t, admin.run("calendars", "import", "work", weekdays).stderr, "names no time zone")
	require.Contains(t, admin.run("calendars", "import", "Work", weekdays, "--time-zone", "UTC").stderr, "must match [a-z]")
	require.Contains(t, admin.run("calendars", "import", "work", "none.ics", "--time-zone", "UTC").stderr, "none.ics")
	hourly := icsFile(t, "SUMMARY:oft\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=HOURLY")
	require.Contains(t, admin.run("calendars", "import", "work", hourly, "--time-zone", "UTC").stderr, "entry 1 (oft): rule FREQ=HOURLY: FREQ must be DAILY")
	require.Contains(t, admin.succeed("calendars", "import", "work", weekdays, "--time-zone", "Europe/Berlin", "--dry-run"), "would have 1 entry")
	require.Empty(t, person.array("calendars", "list"))
	require.Contains(t, admin.succeed("calendars", "import", "work", weekdays, "--time-zone", "Europe/Berlin"), "calendar work has 1 entry, in Europe/Berlin\n")
	require.Contains(t, admin.succeed("calendars", "import", "down", everyDay, "--time-zone", "UTC"), `left out: "off": it is cancelled`)
	require.Equal(t, "calendars.create", u.row(`SELECT action FROM audit WHERE object_id = 'work'`))

	require.Contains(t, person.run("connectors", "add", "--name", "docs", "--type", "file", "--user", "1", "--config", `{"url":"file:///a"}`, "--cron", "0 3 * * *", "--calendar", "other").stderr,
		"there is none of this name")
	require.Contains(t, person.run("connectors", "add", "--name", "docs", "--type", "file", "--user", "1", "--config", `{"url":"file:///a"}`, "--calendar-use", "only").stderr, "needs --calendar")
	person.succeed("connectors", "add", "--name", "docs", "--type", "file", "--user", "1", "--config", `{"url":"file:///a"}`, "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin",
		"--calendar", "work", "--calendar-use", "only")
	got := person.object("connectors", "get", "docs")
	require.Equal(t, []any{"work", "only"}, []any{got["calendar"], got["calendar_use"]})
	require.Contains(t, person.succeed("connectors", "get", "docs"), "calendar: only work")
	require.Contains(t, strings.Join(evidenceOf(person.object("why", "docs")), "\n"), "calendar work: its slots run on its times alone; slots of now ")

	var p, other foreseen
	person.json(&p, "schedule", "preview", "docs", "--next", "14d")
	ran := 0
	for _, slot := range p.Now.Slots {
		day := slot.LocalFirst.Weekday()
		if slot.Verdict == "runs" {
			ran++
			require.NotContains(t, []time.Weekday{time.Saturday, time.Sunday}, day)
			continue
		}
		require.Equal(t, "calendar `work`: not on it", slot.Reason)
		require.Contains(t, []time.Weekday{time.Saturday, time.Sunday}, day)
	}
	require.GreaterOrEqual(t, ran, 9)
	person.json(&other, "schedule", "preview", "docs", "--next", "14d", "--set", "calendar=down", "--set", "calendar_use=exclude")
	require.Len(t, other.Set.Slots, 1)
	require.Equal(t, []any{"skipped", "calendar `down`: Wartung"}, []any{other.Set.Slots[0].Verdict, other.Set.Slots[0].Reason})

	require.Contains(t, admin.run("calendars", "delete", "work").stderr, "calendar work is in use")
	require.Contains(t, admin.succeed("calendars", "import", "work", weekdays, "--except", everyDay, "--time-zone", "Europe/Berlin"), "has 2 entries")
	shown := person.object("calendars", "show", "work")
	require.Empty(t, shown["coming"])
	require.InDelta(t, 1, shown["connectors"], 0)
	require.Contains(t, person.succeed("calendars", "show", "work"), "(not on it)")
	require.Contains(t, person.succeed("calendars", "show", "down"), "Wartung")
	person.succeed("connectors", "update", "docs", "--calendar", "none")
	require.Contains(t, person.run("calendars", "delete", "work").stderr, "must be a member of role echomind_administrator")
	require.Contains(t, admin.succeed("calendars", "delete", "work"), "calendar work is deleted")
	require.Contains(t, admin.run("calendars", "delete", "work").stderr, `there is no calendar "work"`)
}

func evidenceOf(why map[string]any) (all []string) {
	for _, fact := range why["evidence"].([]any) {
		all = append(all, fact.(string))
	}
	return all
}
