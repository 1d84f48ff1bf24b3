package slots

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/echomind/sync/internal/calendars"
)

func blackout(t *testing.T, name string, skip bool, zone string, entries ...calendars.Entry) Blackout {
	t.Helper()
	times, err := calendars.Of(zone, entries)
	if err != nil {
		t.Fatal(err)
	}
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return Blackout{Name: name, Skip: skip, Spread: 10 * time.Minute, Zone: in, Times: times}
}

func daily(start, end string) calendars.Entry {
	return calendars.Entry{Name: "w", Start: start, End: end, Rule: "FREQ=DAILY"}
}

func TestSlotsInsideAWindowThatSkipsAreSkippedInOneLine(t *testing.T) {
	s := schedule(t, "0 * * * *", "UTC", Policies{}).Under(1, []Blackout{blackout(t, "office", true, "Europe/Berlin", daily("2026-02-01T08:00", "2026-02-01T18:00"))})
	state := State{Through: at("2026-02-06 06:00")}
	if p := s.Plan(state, at("2026-02-06 12:30")); len(p.Passed) > 0 || !p.Next.Equal(at("2026-02-06 13:00")) {
		t.Errorf("inside: %v, and %s is next", p.Passed, p.Next)
	}
	c := s.Claim(at("2026-02-06 07:00"), state, at("2026-02-06 17:00"))
	want := []Answer{answer(Skipped, "blackout `office` until 2026-02-06T18:00+01:00", "2026-02-06 07:00", "2026-02-06 16:00", 10)}
	if !c.Run.Equal(at("2026-02-06 17:00")) || !reflect.DeepEqual(utc(c.Passed), want) {
		t.Errorf("%s runs, and %v", c.Run, utc(c.Passed))
	}
}

func TestASlotThatAWindowDefersWaitsAndTheRulesOfCatchingUpDecideBehindIt(t *testing.T) {
	for catchUp, run := range map[string]string{CatchUpLatest: "2026-02-06 16:00", CatchUpAll: "2026-02-06 15:00"} {
		s := schedule(t, "0 * * * *", "UTC", Policies{CatchUp: catchUp, Most: 2}).Under(1, []Blackout{blackout(t, "office", false, "UTC", daily("2026-02-01T08:00", "2026-02-01T17:00"))})
		state := State{Through: at("2026-02-06 07:00")}
		c := s.Claim(at("2026-02-06 08:00"), state, at("2026-02-06 08:00"))
		h, is := s.Held(c.Run, at("2026-02-06 08:00"))
		if !is || !h.End.Equal(at("2026-02-06 17:00")) || h.Until.Before(h.End) || h.Until.After(h.End.Add(10*time.Minute)) {
			t.Fatalf("%s: %v until %s", catchUp, is, h.Until)
		}
		if c = s.Claim(at("2026-02-06 08:00"), state, at("2026-02-06 16:59")); !c.Run.Equal(at(run)) {
			t.Errorf("%s: %s runs", catchUp, c.Run)
		}
	}
}

func TestAPlaceBehindAWindowIsBeforeTheSlotIsTooLateAndBeforeTheNextWindow(t *testing.T) {
	b := blackout(t, "often", false, "UTC", daily("2026-02-01T08:00", "2026-02-01T09:00"), daily("2026-02-01T09:04", "2026-02-01T10:00"))
	for id := range int32(100) {
		if h, _ := Hold([]Blackout{b}, id, at("2026-02-06 08:30"), time.Time{}); h.Until.After(at("2026-02-06 09:02")) {
			t.Errorf("%d: %s", id, h.Until)
		}
		if h, _ := Hold([]Blackout{b}, id, at("2026-02-06 09:30"), at("2026-02-06 10:01")); !h.Until.Before(at("2026-02-06 10:01")) {
			t.Errorf("%d: %s is too late", id, h.Until)
		}
	}
}

func TestOfWindowsThatOverlapTheOneThatEndsLastHolds(t *testing.T) {
	early, late := blackout(t, "early", false, "UTC", daily("2026-02-01T08:00", "2026-02-01T12:00")), blackout(t, "late", false, "UTC", daily("2026-02-01T10:00", "2026-02-01T14:00"))
	for moment, name := range map[string]string{"2026-02-06 08:00": "early", "2026-02-06 10:00": "late", "2026-02-06 12:00": "late"} {
		for _, all := range [][]Blackout{{early, late}, {late, early}} {
			if h, is := Hold(all, 1, at(moment), time.Time{}); !is || h.Blackout.Name != name {
				t.Errorf("%s: %v", moment, h.Blackout)
			}
		}
	}
	if _, is := Hold([]Blackout{early, late}, 1, at("2026-02-06 14:00"), time.Time{}); is {
		t.Error("the end is not inside")
	}
}

func TestAWindowThatNeverEndsHasItsConnectorsLookedAtOnceAMonth(t *testing.T) {
	b := blackout(t, "ever", false, "UTC", calendars.Entry{Name: "always", Start: "2026-01-01", Rule: "FREQ=DAILY"})
	h, is := Hold([]Blackout{b}, 1, at("2026-02-06 12:00"), time.Time{})
	if !is || !h.End.IsZero() || !h.Until.Equal(at("2026-03-06 12:00")) || h.Says() != "blackout `ever` without an end" {
		t.Errorf("%v: %s until %s", is, h.Says(), h.Until)
	}
	until := at("2026-02-08 00:00")
	if all := schedule(t, "0 3 * * *", "UTC", Policies{}).Under(1, []Blackout{b}).Preview(State{Through: at("2026-02-06 12:00")}, at("2026-02-06 12:00"), until, 0, 10); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

func TestAWindowFollowsTheClocksWhereTheyChange(t *testing.T) {
	b := blackout(t, "night", false, "Europe/Berlin", daily("2026-03-01T02:30", "2026-03-01T03:30")) // 02:30 is left out on the 29th
	for moment, end := range map[string]string{"2026-03-28 01:45": "2026-03-28 02:30", "2026-03-29 01:29": "2026-03-29 01:30", "2026-10-25 02:00": "2026-10-25 02:30"} {
		if h, is := Hold([]Blackout{b}, 1, at(moment), time.Time{}); is && !h.End.Equal(at(end)) {
			t.Errorf("%s: it ends at %s", moment, h.End)
		} else if !is && moment != "2026-03-29 01:29" {
			t.Errorf("%s: it does not stand", moment)
		}
	}
}

func TestAPreviewSaysWhyASlotRunsLater(t *testing.T) {
	s := schedule(t, "0 12 * * *", "UTC", Policies{}).Under(1, []Blackout{blackout(t, "office", false, "UTC", daily("2026-02-01T08:00", "2026-02-01T18:00"))})
	s.blackouts[0].Spread = 0
	all := s.Preview(State{Through: at("2026-02-06 00:00")}, at("2026-02-06 00:00"), at("2026-02-07 00:00"), 0, 10)
	if len(all) != 1 || all[0].Verdict != Runs || all[0].Reason != "blackout `office` until 2026-02-06T18:00Z, then at 2026-02-06T18:00:00Z" {
		t.Errorf("%+v", all)
	}
}

func TestAPlaceBehindAWindowIsBeforeAnotherWindowBegins(t *testing.T) {
	night := blackout(t, "night", false, "UTC", daily("2026-02-01T00:00", "2026-02-01T17:00"))
	evening := blackout(t, "evening", false, "UTC", daily("2026-02-01T17:30", "2026-02-02T00:00"))
	night.Spread, evening.Spread = time.Hour, time.Hour
	for id := range int32(100) {
		h, is := Hold([]Blackout{evening, night}, id, at("2026-02-06 08:30"), time.Time{})
		if !is || h.Blackout.Name != "night" || h.Until.Before(at("2026-02-06 17:00")) || h.Until.After(at("2026-02-06 17:15")) {
			t.Errorf("%d: %s by %s", id, h.Until, h.Blackout.Name)
		}
	}
}

func TestAPreviewHasOneLineOfSlotsThatBecomeTooLateBehindSeveralWindows(t *testing.T) {
	morning, noon := blackout(t, "morning", false, "UTC", daily("2026-02-01T08:00", "2026-02-01T12:00")), blackout(t, "noon", false, "UTC", daily("2026-02-01T11:00", "2026-02-01T16:00"))
	morning.Spread, noon.Spread = 0, 0
	s := schedule(t, "*/30 8-16 * * *", "UTC", Policies{CatchUp: CatchUpLatest, Deadline: 92 * time.Minute}).Under(1, []Blackout{morning, noon})
	all := s.Preview(State{Through: at("2026-02-06 07:30")}, at("2026-02-06 07:30"), at("2026-02-06 16:10"), 0, 10)
	if len(all) != 3 || all[0].Reason != TooLate || all[0].Count != 13 || all[1].Reason != Passed || all[2].Verdict != Runs {
		t.Errorf("%+v", all)
	}
}

func TestAPreviewSaysOfNoWindowThatASlotWaitedForItWhichDidNot(t *testing.T) {
	s := schedule(t, "0 12,20 * * *", "UTC", Policies{CatchUp: CatchUpLatest, Deadline: 5 * time.Minute}).Under(1, []Blackout{blackout(t, "office", false, "UTC", daily("2026-02-01T08:00", "2026-02-01T18:00"))})
	all := s.Preview(State{Through: at("2026-02-06 00:00")}, at("2026-02-06 00:00"), at("2026-02-07 00:00"), 0, 10)
	if len(all) != 2 || all[0].Reason != TooLate || all[1].Verdict != Runs || all[1].Reason != "" {
		t.Errorf("%+v", all)
	}
}

func TestAPreviewHasALineOfItsOwnForWhatIsSkippedBehindASlotThatWaits(t *testing.T) {
	only := calendar(t, Only, "UTC", calendars.Entry{Name: "w", Start: "2026-02-06T10:00", End: "2026-02-06T11:00"})
	office := blackout(t, "office", false, "UTC", daily("2026-02-01T08:00", "2026-02-01T18:00"))
	office.Spread = 0
	s := schedule(t, "0 8,10,12 * * *", "UTC", Policies{CatchUp: CatchUpLatest}).On(only).Under(1, []Blackout{office})
	all := s.Preview(State{Through: at("2026-02-06 00:00")}, at("2026-02-06 00:00"), at("2026-02-06 13:00"), 0, 10)
	if len(all) != 2 || all[0].Count != 1 || all[1].Count != 1 || !all[1].First.Equal(at("2026-02-06 12:00")) {
		t.Errorf("%+v", all)
	}
}

// The run of one that waits is another sync, before which they came.
func TestAPreviewSaysNothingOfSlotsInFlightBehindOneThatWaits(t *testing.T) {
	b := blackout(t, "morning", false, "UTC", calendars.Entry{Name: "morning", Start: "2026-02-06T08:00", End: "2026-02-06T14:00"})
	b.Spread = 0
	s := schedule(t, "0 * * * *", "UTC", Policies{CatchUp: CatchUpAll, Most: 10}).Under(1, []Blackout{b})
	preview := func(until string) []Entry {
		return s.Preview(State{Through: at("2026-02-06 07:30")}, at("2026-02-06 07:30"), at(until), 75*time.Minute, 100)
	}
	said, later := preview("2026-02-06 14:30"), preview("2026-02-06 20:30")
	if n := len(said); n == 0 || !slices.Equal(said, later[:n]) {
		t.Errorf("it says %v, and of longer %v", said, later)
	}
}
