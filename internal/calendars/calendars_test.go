package calendars

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func when(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse("2006-01-02 15:04", text)
	require.NoError(t, err)
	return moment
}

func read(t *testing.T, zone, entries string) *Calendar {
	t.Helper()
	c, err := Read(zone, []byte(entries))
	require.NoError(t, err)
	return c
}

// says is what a calendar says of a moment.
func says(c *Calendar, moment time.Time) string {
	on, name, until := c.At(moment)
	text := "off "
	if on {
		text = "on "
	}
	return text + name + " until " + until.UTC().Format("2006-01-02 15:04")
}

func TestDaysHalfDaysAndExceptionsAreThoseOfTheCalendarsZone(t *testing.T) {
	t.Parallel()
	c := read(t, "Europe/Berlin", `[{"name": "Heiligabend", "start": "2026-12-24T12:00", "end": "2026-12-25", "rule": "FREQ=YEARLY"},
		{"name": "Weihnachten", "start": "2026-12-25", "end": "2026-12-27", "rule": "FREQ=YEARLY", "not": ["2027-12-25"]},
		{"name": "Umstellung", "start": "2026-03-29"}, {"name": "Tokio", "start": "2026-06-01", "time_zone": "Asia/Tokyo"},
		{"name": "Brückentag", "start": "2026-05-15", "also": ["2027-05-07"]}]`)
	for moment, want := range map[string]string{
		"2026-12-24 10:59": "off  until 2026-12-24 11:00",
		"2026-12-24 11:00": "on Heiligabend until 2026-12-24 23:00",
		"2026-12-24 23:00": "on Weihnachten until 2026-12-26 23:00",
		"2027-12-25 12:00": "off  until 2028-12-24 11:00",
		"2026-03-28 23:00": "on Umstellung until 2026-03-29 22:00", // of 23 hours
		"2026-05-31 15:00": "on Tokio until 2026-06-01 15:00",
		"2027-05-07 08:00": "on Brückentag until 2027-05-07 22:00",
	} {
		require.Equal(t, want, says(c, when(t, moment)), moment)
	}
}

func TestWhatIsExceptedIsNotOnTheCalendar(t *testing.T) {
	t.Parallel()
	c := read(t, "UTC", `[{"name": "Werktag", "start": "2026-01-05", "rule": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"},
		{"name": "Karfreitag", "start": "2026-04-03", "except": true}]`)
	require.Equal(t, "on Werktag until 2026-04-03 00:00", says(c, when(t, "2026-04-02 12:00")))
	require.Equal(t, "off Karfreitag until 2026-04-04 00:00", says(c, when(t, "2026-04-03 12:00")))
	require.Equal(t, "off  until 2026-04-06 00:00", says(c, when(t, "2026-04-04 12:00")))
	from, until := c.Begins(when(t, "2026-04-03 12:00"), true)
	require.Equal(t, when(t, "2026-04-06 00:00"), from.UTC())
	require.Equal(t, when(t, "2026-04-11 00:00"), until.UTC())
}

func TestWhatBeganFirstSaysWhatATimeIsCalledAcrossTheYear(t *testing.T) {
	t.Parallel()
	c := read(t, "UTC", `[{"name": "Ferien", "start": "2026-12-23", "end": "2027-01-07"}, {"name": "Neujahr", "start": "2027-01-01"},
		{"name": "lang", "start": "2027-01-05", "end": "2027-01-10"}]`)
	require.Equal(t, "on Ferien until 2027-01-07 00:00", says(c, when(t, "2026-12-23 00:00")))
	require.Equal(t, "on Ferien until 2027-01-07 00:00", says(c, when(t, "2027-01-01 12:00")))
	require.Equal(t, "on lang until 2027-01-10 00:00", says(c, when(t, "2027-01-07 00:00")))
	all, since := c.Changes(when(t, "2026-12-01 00:00"), when(t, "2027-02-01 00:00"), 10)
	require.Zero(t, since)
	require.Equal(t, []time.Time{when(t, "2026-12-23 00:00"), when(t, "2027-01-01 00:00"), when(t, "2027-01-07 00:00"), when(t, "2027-01-10 00:00")}, all)
	all, since = c.Changes(when(t, "2026-12-01 00:00"), when(t, "2027-02-01 00:00"), 2)
	require.Len(t, all, 2)
	require.Equal(t, when(t, "2027-01-07 00:00"), since)
}

func TestWhatIsNoCalendarIsRefusedWithItsEntry(t *testing.T) {
	t.Parallel()
	for entries, want := range map[string]string{
		`{}`:                                    "no list of entries",
		`[{"name": "", "start": "2026-01-01"}]`: "entry 1 (): name has 0 characters",
		`[{"name": "a", "start": "2026-01-01"}, {"name": "b", "start": "1.1.2026"}]`:          `entry 2 (b): start "1.1.2026": must be a day`,
		`[{"name": "a", "start": "2026-01-01T12:00"}]`:                                        "a time at its start, and no end",
		`[{"name": "a", "start": "2026-01-02", "end": "2026-01-01"}]`:                         "must be behind its start",
		`[{"name": "a", "start": "2026-01-02", "end": "2028-01-01"}]`:                         "at most 366 days",
		`[{"name": "a", "start": "2026-01-02", "time_zone": "W. Europe Standard Time"}]`:      "write an IANA name",
		`[{"name": "a", "start": "2026-01-02", "also": ["x"]}]`:                               `also "x": must be a day`,
		`[{"name": "a", "start": "2026-01-02", "rule": "FREQ=DAILY", "not": ["2026-13-01"]}]`: `not "2026-13-01": must be a day`,
		`[{"name": "a", "start": "3026-01-02"}]`:                                              "between the years 1900 and 2200",
	} {
		_, err := Read("UTC", []byte(entries))
		require.ErrorIs(t, err, ErrCalendar)
		require.ErrorContains(t, err, want)
	}
	_, err := Read("Mars", []byte(`[]`))
	require.ErrorContains(t, err, `time_zone "Mars": write an IANA name`)
}
