//go:build !race

package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/echomind/sync/internal/calendars"
)

// rota is as much as a calendar may have: it closes all of each day, under names that change.
func rota(t *testing.T) string {
	t.Helper()
	var all []calendars.Entry
	for hour := range 4 {
		all = append(all, calendars.Entry{
			Name: fmt.Sprint("shift ", hour), Start: fmt.Sprintf("2020-01-01T%02d:00", hour), End: fmt.Sprintf("2020-01-01T%02d:00", hour+1), Rule: "FREQ=DAILY",
		})
	}
	all[3].End = "2020-01-02"
	if _, err := calendars.Of("Europe/Berlin", all); err != nil {
		t.Fatal(err)
	}
	if _, err := calendars.Of("Europe/Berlin", append(all, all[0])); err == nil {
		t.Fatal("it may have more")
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ofCalendars has connectors that name calendars c1 to cn, and 50 others.
func (s *stage) ofCalendars(entries string, n, connectors int) {
	s.Helper()
	s.exec(`INSERT INTO calendars (name, time_zone, entries) SELECT 'c' || i, 'Europe/Berlin', $1::jsonb FROM generate_series(1, $2::integer) i`, entries, n)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, calendar, last_sync_at)
		SELECT 'n' || i, 'web', 1, 60, 'c' || 1 + i % $1::integer, clock_timestamp() - interval '2 hours' FROM generate_series(1, $2::integer) i`, n, connectors)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'other' || i, 'web', 2, 60, clock_timestamp() - interval '90 minutes' FROM generate_series(1, 50) i`)
}

func TestOneCalendarOfManyTimesKeepsNobodyFromBeingClaimed(t *testing.T) {
	s := setStage(t)
	s.ofCalendars(rota(t), 1, 300)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 50, `SELECT count(*) FROM connectors WHERE user_id = 2 AND status = 'PENDING'`)
	want(s, 300, `SELECT count(*) FROM connectors WHERE calendar IS NOT NULL AND next_sync_at > clock_timestamp()`)
}

func TestManyCalendarsOfManyTimesAreAFewMegabytes(t *testing.T) {
	s := setStage(t)
	s.ofCalendars(rota(t), 100, 100)
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, 50, `SELECT count(*) FROM connectors WHERE user_id = 2 AND status = 'PENDING'`)
	want(s, 100, `SELECT count(*) FROM connectors WHERE calendar IS NOT NULL AND next_sync_at > clock_timestamp()`)
	times := 0
	for _, c := range scheduler.calendars.known {
		times += c.times.Kept()
	}
	if times > mostTimes {
		t.Errorf("%d stretches of time are remembered, at most %d may be", times, mostTimes)
	}
}

func TestACalendarThatTakesTooLongToReadIsTheProblemOfWhoNamesIt(t *testing.T) {
	s := setStage(t)
	days := strings.TrimSuffix(strings.Repeat("5MO,5TU,5WE,5TH,5FR,5SA,5SU,", 2300), ",")
	text, err := json.Marshal([]calendars.Entry{{Name: "x", Start: "1900-01-01", Rule: "FREQ=MONTHLY;COUNT=100000;BYDAY=" + days}})
	s.do(err)
	s.ofCalendars(string(text), 3, 3)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 50, `SELECT count(*) FROM connectors WHERE user_id = 2 AND status = 'PENDING'`)
	want(s, 3, `SELECT count(*) FROM connectors WHERE status_message LIKE '%list more than 2000 months and days'`)
}
