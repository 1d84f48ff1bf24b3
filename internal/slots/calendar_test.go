package slots

import (
	"reflect"
	"testing"
	"time"

	"github.com/echomind/sync/internal/calendars"
)

func calendar(t *testing.T, use, zone string, entries ...calendars.Entry) *Calendar {
	t.Helper()
	times, err := calendars.Of(zone, entries)
	if err != nil {
		t.Fatal(err)
	}
	return &Calendar{Name: "cal", Use: use, Times: times}
}

func TestACalendarIsAskedBeforeAllOtherRules(t *testing.T) {
	s := schedule(t, "0 * * * *", "UTC", Policies{OncePer: Day, Deadline: 2 * time.Hour}).On(calendar(t, Exclude, "UTC",
		calendars.Entry{Name: "Neujahr", Start: "2026-01-01"}, calendars.Entry{Name: "Wartung", Start: "2026-01-02T03:00", End: "2026-01-02T05:00"}))
	state := State{Through: at("2025-12-31 21:00"), Completed: []time.Time{at("2026-01-01 02:00")}}
	claim := s.Claim(at("2025-12-31 22:00"), state, at("2026-01-02 06:10"))
	want := []Answer{
		answer(Missed, TooLate, "2025-12-31 22:00", "2025-12-31 23:00", 2),
		answer(Skipped, "calendar `cal`: Neujahr", "2026-01-01 00:00", "2026-01-01 23:00", 24),
		answer(Missed, TooLate, "2026-01-02 00:00", "2026-01-02 02:00", 3),
		answer(Skipped, "calendar `cal`: Wartung", "2026-01-02 03:00", "2026-01-02 04:00", 2),
		answer(Missed, Passed, "2026-01-02 05:00", "2026-01-02 05:00", 1),
	}
	if !claim.Run.Equal(at("2026-01-02 06:00")) || !reflect.DeepEqual(utc(claim.Passed), want) {
		t.Errorf("%s runs, and\n%v", claim.Run, utc(claim.Passed))
	}
}

func TestTheLineOfATimeThatACalendarClosesIsWrittenWhenItIsOver(t *testing.T) {
	s := schedule(t, "0 * * * *", "UTC", Policies{}).On(calendar(t, Only, "UTC",
		calendars.Entry{Name: "Werktag", Start: "2026-02-02", Rule: "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"}))
	state := State{Through: at("2026-02-06 23:00")} // a Friday
	plan := s.Plan(state, at("2026-02-07 12:00"))
	if len(plan.Passed) > 0 || !plan.Through.Equal(state.Through) || !plan.Next.Equal(at("2026-02-09 00:00")) {
		t.Errorf("on Saturday: %v, due next at %s", plan.Passed, plan.Next)
	}
	claim := s.Claim(plan.Next, state, at("2026-02-09 00:00"))
	if want := []Answer{answer(Skipped, "calendar `cal`: not on it", "2026-02-07 00:00", "2026-02-08 23:00", 48)}; !reflect.DeepEqual(utc(claim.Passed), want) ||
		!claim.Run.Equal(plan.Next) {
		t.Errorf("%v, and %s runs", claim.Passed, claim.Run)
	}
}

func TestAScheduleWhoseSlotsTheCalendarAllClosesNeverComesDue(t *testing.T) {
	weekdays := calendars.Entry{Name: "Werktag", Start: "2026-02-02", Rule: "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"}
	for expression, c := range map[string]*Calendar{"0 3 * * 6": calendar(t, Only, "UTC", weekdays), "* * * * *": calendar(t, Only, "UTC"), "0 3 * * 1": calendar(t, Exclude, "UTC", weekdays)} {
		if next := schedule(t, expression, "UTC", Policies{}).On(c).Next(at("2026-02-06 12:00")); !next.IsZero() {
			t.Errorf("%s is due at %s", expression, next)
		}
	}
}

func TestAnIntervalGoesOnWhereItsCalendarReopensAtAPlaceOfItsOwn(t *testing.T) {
	c := calendar(t, Exclude, "UTC", calendars.Entry{Name: "Wartung", Start: "2026-02-06", End: "2026-02-09"})
	slot := at("2026-02-07 12:00")
	s := Interval(slot, Policies{}).On(c)
	claim := s.Claim(slot, State{}, at("2026-02-07 12:00"))
	plan := s.Plan(State{}, at("2026-02-07 12:00"))
	if want := []Answer{answer(Skipped, "calendar `cal`: Wartung", "2026-02-07 12:00", "2026-02-07 12:00", 1)}; !claim.Run.IsZero() || !reflect.DeepEqual(utc(plan.Passed), want) {
		t.Errorf("%s runs, and %v", claim.Run, plan.Passed)
	}
	if next := s.Reopens(7, slot, time.Hour, 0); !next.Equal(at("2026-02-09 00:00")) {
		t.Errorf("without a spread it is due at %s", next)
	}
	one, other := s.Reopens(7, slot, 10*time.Hour, 10), s.Reopens(8, slot, 10*time.Hour, 10)
	for _, next := range []time.Time{one, other} {
		if next.Before(at("2026-02-09 00:00")) || next.After(at("2026-02-09 01:00")) {
			t.Errorf("it is due at %s", next)
		}
	}
	if one.Equal(other) {
		t.Error("both are due at once")
	}
	if next := Interval(at("2026-02-09 00:00"), Policies{}).On(c).Reopens(7, at("2026-02-09 00:00"), time.Hour, 10); !next.IsZero() {
		t.Errorf("it is open, and due at %s", next)
	}
}

func TestSlotsOfYearsAreDecidedByTheLatestTimesOfACalendar(t *testing.T) {
	s := schedule(t, "0 * * * *", "UTC", Policies{}).On(calendar(t, Exclude, "UTC",
		calendars.Entry{Name: "Mittag", Start: "2010-01-01T12:00", End: "2010-01-01T13:00", Rule: "FREQ=DAILY"}))
	now := at("2026-02-06 12:30")
	claim := s.Claim(at("2001-01-01 00:00"), State{}, now)
	n := 0
	for _, a := range claim.Passed {
		n += a.Count
	}
	if first := claim.Passed[0]; first.Reason != NotCaughtUp || len(claim.Passed) > mostChanges+2 || !claim.Run.Equal(at("2026-02-06 11:00")) {
		t.Errorf("%s runs, %d lines, the first %v", claim.Run, len(claim.Passed), first)
	}
	if want := int(claim.Run.Sub(at("2001-01-01 00:00")) / time.Hour); n != want && n != want+1 {
		t.Errorf("%d slots are answered, want %d", n, want)
	}
}
