package icalendar_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/calendars/icalendar"
)

// The parser alone takes 200 MB for the first, and the answer repeats it.
func TestAFileCostsNoHundredsOfTimesItsSize(t *testing.T) {
	event := func(line string) string {
		return "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\n" + line + "\nDTSTART;TZID=America/Sao_Paulo:20260101T000000\nDURATION:PT1H\nEND:VEVENT\nEND:VCALENDAR\n"
	}
	for name, file := range map[string]string{
		"events in events":                  "BEGIN:VCALENDAR\n" + strings.Repeat("BEGIN:VEVENT\n", 4000),
		"events in events, in another form": "BEGIN:VCALENDAR\n" + strings.Repeat("!begin;X=1:vevent\n", 4000),
		"parameters":                        event("SUMMARY" + strings.Repeat(";A=b", 16<<10) + ":x"),
		"parameters on many lines":          event(strings.Repeat("SUMMARY"+strings.Repeat(";A=b", 60)+":x\n", 200)),
		"values of a parameter":             event("SUMMARY;A=b" + strings.Repeat(",b", 32<<10) + ":x"),
		"parameters behind a quoted colon":  event(`SUMMARY;A=":"` + strings.Repeat(";A=b", 16<<10) + ":x"),
		"parameters behind an escaped one":  event(`SUMMARY;A=\:` + strings.Repeat(";A=b", 16<<10) + ":x"),
		"exceptions":                        event("EXDATE;TZID=America/Sao_Paulo:20260101T000000" + strings.Repeat(",20260101T000000", 16_000)),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := icalendar.Read(strings.NewReader(file))
			runtime.ReadMemStats(&after)
			if err != nil {
				require.Less(t, len(err.Error()), 400)
			}
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(150*len(file)))
		})
	}
}

func TestALongLineOfTextIsRead(t *testing.T) {
	file, err := icalendar.Read(strings.NewReader("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:x\nDESCRIPTION;LANGUAGE=en;ALTREP=\"https://a.example/;,\":" + strings.Repeat(`a\, b; `, 5000) +
		"\nDTSTART;VALUE=DATE:20270101\nBEGIN:VALARM\nACTION:DISPLAY\nEND:VALARM\nEND:VEVENT\nEND:VCALENDAR\n"))
	require.NoError(t, err)
	require.Len(t, file.Entries, 1)
}
