package icalendar_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/calendars/icalendar"
)

// FuzzRead: what is read of a file is a calendar, or refused in few words.
func FuzzRead(f *testing.F) {
	event := func(lines ...string) string {
		return "BEGIN:VCALENDAR\nX-WR-TIMEZONE:Europe/Berlin\nBEGIN:VEVENT\nUID:a\n" + strings.Join(lines, "\n") + "\nEND:VEVENT\nEND:VCALENDAR\n"
	}
	for _, seed := range []string{
		"", "BEGIN:VCALENDAR\nEND:VCALENDAR\n", event("DTSTART:20260101", "RRULE:FREQ=YEARLY;BYDAY=-1SU;COUNT=3", "EXDATE:20270131,20280130"),
		event("DTSTART;TZID=Europe/Berlin:20260101T120000", "DURATION:P1DT2H", "RDATE;VALUE=DATE:20260301", "SUMMARY:a\\, b\n  c"),
		event("DTSTART:20260101", "RRULE:FREQ=YEARLY;BYDAY=-1\xe6\xe6"), event("DTSTART:20260101T000000Z", "DTEND:20260102T000000Z", "RECURRENCE-ID:20260101"),
		event(`SUMMARY;A=":";B=\::x`, "BEGIN:VALARM", "END:VALARM"), "BEGIN:VCALENDAR\nBEGIN:VEVENT\nBEGIN:VEVENT\nEND:VCALENDAR\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := icalendar.Read(strings.NewReader(text))
		if err == nil {
			_, err = calendars.Of("Europe/Berlin", file.Entries)
		}
		if err != nil {
			require.Less(t, len(err.Error()), 1000)
		}
		for _, left := range file.Left {
			require.Less(t, len(left), 1000)
		}
	})
}
