package icalendar

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/calendars"
)

func file(events ...string) string {
	text := "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//test//EN\nX-WR-TIMEZONE:Europe/Berlin\n" + strings.Join(events, "") + "END:VCALENDAR\n"
	return strings.ReplaceAll(text, "\n", "\r\n")
}

func vevent(uid string, lines ...string) string {
	return "BEGIN:VEVENT\nUID:" + uid + "\nDTSTAMP:20250101T000000Z\n" + strings.Join(lines, "\n") + "\nEND:VEVENT\n"
}

func TestEventsBecomeEntries(t *testing.T) {
	t.Parallel()
	f, err := Read(strings.NewReader(file(
		vevent("1", "DTSTART;VALUE=DATE:20260101", "DTEND;VALUE=DATE:20260102", "SUMMARY:Neujahr\\, frei", "RRULE:FREQ=YEARLY", "TRANSP:TRANSPARENT"),
		vevent("2", "DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261227", "SUMMARY:Ein sehr langer", "  Name"),
		vevent("3", "DTSTART;TZID=Europe/Berlin:20261224T120000", "DTEND;TZID=Europe/Berlin:20261225T000000", "SUMMARY:halb",
			"RRULE:FREQ=YEARLY;UNTIL=20301231T225959Z", "EXDATE;TZID=Europe/Berlin:20271224T120000,20281224T120000"),
		vevent("4", "DTSTART:20260301T100000Z", "DURATION:PT2H30M", "SUMMARY:Wartung", "RDATE:20260401T100000Z"),
		vevent("5", "DTSTART;VALUE=DATE:20260701", "SUMMARY:weekly", "RRULE:FREQ=WEEKLY"),
		vevent("5", "DTSTART;VALUE=DATE:20260709", "SUMMARY:moved", "RECURRENCE-ID;VALUE=DATE:20260708"),
		vevent("5", "DTSTART;VALUE=DATE:20260715", "SUMMARY:gone", "RECURRENCE-ID;VALUE=DATE:20260715", "STATUS:CANCELLED"),
		vevent("6", "DTSTART:20260301T100000Z", "SUMMARY:nothing"),
		vevent("7", "DTSTART;TZID=Asia/Tokyo:20260301T090000", "DTEND:20260301T010000Z"),
	)))
	require.NoError(t, err)
	require.Equal(t, "Europe/Berlin", f.TimeZone)
	require.Equal(t, []calendars.Entry{
		{Name: "Neujahr, frei", Start: "2026-01-01", Rule: "FREQ=YEARLY"},
		{Name: "Ein sehr langer Name", Start: "2026-12-25", End: "2026-12-27"},
		{Name: "halb", Start: "2026-12-24T12:00", End: "2026-12-25T00:00", TimeZone: "Europe/Berlin", Rule: "FREQ=YEARLY;UNTIL=20301231T225959Z",
			Not: []string{"2027-12-24T12:00", "2028-12-24T12:00"}},
		{Name: "Wartung", Start: "2026-03-01T10:00", End: "2026-03-01T12:30", TimeZone: "UTC", Also: []string{"2026-04-01T10:00"}},
		{Name: "weekly", Start: "2026-07-01", Rule: "FREQ=WEEKLY", Not: []string{"2026-07-08", "2026-07-15"}},
		{Name: "moved", Start: "2026-07-09"},
		{Name: "without a name", Start: "2026-03-01T09:00", End: "2026-03-01T10:00", TimeZone: "Asia/Tokyo"},
	}, f.Entries)
	require.Equal(t, []string{`"gone": it is cancelled`, `"nothing": it has no length`}, f.Left)
	_, err = calendars.Of(f.TimeZone, f.Entries)
	require.NoError(t, err)
}

func TestWhatACalendarDoesNotKnowIsAnErrorThatNamesItsEvent(t *testing.T) {
	t.Parallel()
	for lines, says := range map[string]string{
		"DTSTART;TZID=W. Europe Standard Time:20260301T090000": `event "x": DTSTART names the time zone "W. Europe Standard Time"`,
		"DTSTART:2026":                                                                `event "x": DTSTART "2026" is no time`,
		"DTSTART:20260301T090000Z\nDURATION:PT":                                       "it has no length",
		"DTSTART:20260301T090000Z\nDURATION:two hours":                                `DURATION "two hours" is none`,
		"DTSTART;VALUE=DATE:20260301\nRRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY":            "more than one RRULE",
		"DTSTART;VALUE=DATE:20260301\nRDATE;VALUE=PERIOD:20260301T090000Z/PT1H":       "RDATE with periods",
		"DTSTART;VALUE=DATE:20260301\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260301":     "RANGE=THISANDFUTURE is not read",
		"DTSTART;VALUE=DATE:20260301\nRRULE:FREQ=YEARLY\nEXDATE;VALUE=DATE:sometimes": `EXDATE "sometimes" is no time`,
	} {
		f, err := Read(strings.NewReader(file(vevent("1", "SUMMARY:x", lines))))
		if len(f.Left) > 0 {
			require.Contains(t, f.Left[0], says)
			continue
		}
		require.ErrorContains(t, err, says)
	}
	_, err := Read(strings.NewReader("hello"))
	require.ErrorContains(t, err, "it is no iCalendar file")
	_, err = Read(strings.NewReader(file(vevent("1", "DESCRIPTION:"+strings.Repeat("x", MaxBytes)))))
	require.ErrorContains(t, err, "it has more than 4194304 bytes")
}

func TestWhatAnEventTakesBackIsNotOnTheCalendar(t *testing.T) {
	t.Parallel()
	f, err := Read(strings.NewReader(file(
		vevent("1", "DTSTART:20260101T100000Z", "DTEND:20260101T110000Z", "SUMMARY:m", "RDATE:20260105T100000Z,20260106T100000Z", "EXDATE:20260105T100000Z"),
		vevent("1", "RECURRENCE-ID:20260106T100000Z", "DTSTART:20260107T100000Z", "DTEND:20260107T110000Z", "SUMMARY:m"))))
	require.NoError(t, err)
	c, err := calendars.Of("UTC", f.Entries)
	require.NoError(t, err)
	for day, want := range map[int]bool{1: true, 5: false, 6: false, 7: true} {
		on, _, _ := c.At(time.Date(2026, 1, day, 10, 30, 0, 0, time.UTC))
		require.Equal(t, want, on, day)
	}
}

func TestATimeInAZoneOfAnEventWithoutOneIsRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"EXDATE:20260104T170000Z", "DTEND:20260101T170000Z", "RDATE;TZID=Asia/Tokyo:20260104T170000"} {
		_, err := Read(strings.NewReader(file(vevent("1", "DTSTART:20260101T020000", "SUMMARY:m", "RRULE:FREQ=DAILY", line, "DURATION:PT1H"))))
		require.ErrorContains(t, err, "and DTSTART in no zone", line)
	}
}
