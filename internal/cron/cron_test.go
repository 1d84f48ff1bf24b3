package cron

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func parse(t interface{ Fatal(...any) }, expression, zone string) Schedule {
	s, err := Parse(Spec{Expression: expression, Zone: zone, ID: 42})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(t *testing.T, value string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, value)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func TestSlotsFollowTheClockOnTheWall(t *testing.T) {
	for name, c := range map[string]struct {
		expression, zone, after string
		next                    []string
	}{
		"Berlin, spring: a slot in the gap moves to its end": {"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"Berlin, spring: several in the gap are one": {"*/20 2,3 * * *", "Europe/Berlin", "2026-03-29T01:50:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:20:00+02:00"}},
		"Berlin, autumn: a repeated time counts the first time": {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"Berlin, autumn: asked in the repeated hour": {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00",
			[]string{"2026-10-26T02:30:00+01:00"}},
		"Berlin, autumn: what runs every hour follows elapsed time": {"0 * * * *", "Europe/Berlin", "2026-10-25T01:30:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		"New York, spring": {"15 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:15:00-04:00"}},
		"New York, autumn": {"15 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:15:00-04:00", "2026-11-02T01:15:00-05:00"}},
		"Lord Howe, spring, half an hour": {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		"Lord Howe, autumn, half an hour": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		"São Paulo, a gap at midnight": {"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		"Apia, a day that never was": {"0 10 * * *", "Pacific/Apia", "2011-12-29T11:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2011-12-31T10:00:00+14:00"}},
		"UTC":     {"0 3 * * *", "UTC", "2026-03-29T03:00:00Z", []string{"2026-03-30T03:00:00Z"}},
		"Kolkata": {"0 3 * * 1", "Asia/Kolkata", "2026-03-29T03:00:00+05:30", []string{"2026-03-30T03:00:00+05:30"}},
		"@daily":  {"@daily", "Asia/Tokyo", "2026-01-01T00:00:00+09:00", []string{"2026-01-02T00:00:00+09:00"}},
		"leap day": {"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			schedule, moment := parse(t, c.expression, c.zone), at(t, c.after)
			for _, next := range c.next {
				moment = schedule.Next(moment)
				if !moment.Equal(at(t, next)) {
					t.Fatalf("slot %s, want %s", moment, next)
				}
			}
		})
	}
}

func TestNextIsStrictlyAfter(t *testing.T) {
	slot := at(t, "2026-05-01T03:00:00Z")
	schedule := parse(t, "0 3 * * *", "UTC")
	if next := schedule.Next(slot); !next.Equal(slot.AddDate(0, 0, 1)) {
		t.Errorf("after a slot itself comes %s", next)
	}
	if next := schedule.Next(slot.Add(-1)); !next.Equal(slot) {
		t.Errorf("a nanosecond before a slot comes %s", next)
	}
}

func TestAScheduleThatNeverComesDueHasNoNext(t *testing.T) {
	schedule, now := parse(t, "0 0 31 2 *", "UTC"), at(t, "2026-01-01T00:00:00Z")
	if next := schedule.Next(now); !next.IsZero() {
		t.Errorf("next is %s", next)
	}
	if last := schedule.Last(now, now.AddDate(1, 0, 0)); !last.IsZero() || schedule.Count(now, now.AddDate(1, 0, 0)) != 0 {
		t.Errorf("last is %s", last)
	}
}

func TestBadSchedulesAreRefused(t *testing.T) {
	for _, c := range []struct{ expression, zone string }{
		{"", "UTC"}, {"* * * *", "UTC"}, {"* * * * * *", "UTC"}, {"60 * * * *", "UTC"}, {"* 24 * * *", "UTC"},
		{"* * 0 * *", "UTC"}, {"* * * 13 *", "UTC"}, {"* * * * 8", "UTC"}, {"*/0 * * * *", "UTC"}, {"5-1 * * * *", "UTC"},
		{"@every 5m", "UTC"}, {"@every", "UTC"}, {"@reboot", "UTC"}, {"@", "UTC"},
		{"TZ=UTC * * * * *", "UTC"}, {"CRON_TZ=Europe/Berlin 0 3 * * *", "UTC"}, {"TZ=", "UTC"}, {" TZ=UTC", "UTC"},
		{"0 3 * * *", "Mars/Olympus"}, {"0 3 * * *", "Local"}, {"0 3 * * *", "../etc/passwd"}, {"0 3 * * *", "CEST"},
		{"0 3 * * *", " "}, {"0 3 * * *", ""},
	} {
		if _, err := Parse(Spec{Expression: c.expression, Zone: c.zone}); !errors.Is(err, ErrSchedule) {
			t.Errorf("Parse(%q, %q): %v, want ErrSchedule", c.expression, c.zone, err)
		}
	}
}

var (
	zones = rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
		"Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca", "America/St_Johns", "Antarctica/Troll",
		"Asia/Beirut", "Pacific/Chatham", "Asia/Pyongyang", "America/Caracas", "Asia/Gaza", "Africa/Monrovia"})
	expressions = rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "15,45 1-3 * * *",
		"0 0 * * *", "59 23 * * *", "*/20 0-4 * * 0", "0 12 1 * *", "5 4 * * 1-5", "@hourly", "@weekly", "0 0 29 2 *",
		"H H * * *", "H/15 * * * *", "30 2 LW * *", "0 0 15W,L-2 * *", "30 1 * * 0L", "59 1 * * sun#4", "0 2 31 * 7", "30 0,1,2,3 * 3,10 6-7"})
	gaps      = rapid.SampledFrom([]Gap{"", GapAfter, GapSkip, GapBefore})
	overlaps  = rapid.SampledFrom([]Overlap{"", OverlapFirst, OverlapSecond, OverlapBoth})
	schedules = rapid.Custom(func(t *rapid.T) Schedule {
		s, err := Parse(Spec{Expression: expressions.Draw(t, "expression"), Zone: zones.Draw(t, "zone"), ID: rapid.Int32Min(1).Draw(t, "id"),
			Gap: gaps.Draw(t, "gap"), Overlap: overlaps.Draw(t, "overlap")})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	moments = rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(1_200_000_000, 1_900_000_000).Draw(t, "second"), 0)
	})
)

func TestSlotsIncreaseAndStandOnTheWall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := schedules.Draw(t, "schedule")
		moment := moments.Draw(t, "after")
		for range 50 {
			next := schedule.Next(moment)
			if next.IsZero() {
				return
			}
			if !next.After(moment) {
				t.Fatalf("%s follows %s", next, moment)
			}
			if between := schedule.Next(moment.Add(next.Sub(moment) / 2)); !between.Equal(next) {
				t.Fatalf("between %s and %s lies %s", moment, next, between)
			}
			moment = next
		}
	})
}

func TestSlotsOfAYearAreTheSameFromItsBeginningAndAskedAtAnyMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule, begin := schedules.Draw(t, "schedule"), moments.Draw(t, "begin")
		if schedule.Count(begin, begin.AddDate(1, 0, 0)) > 20_000 {
			return // a year of minutes tests as much as a month
		}
		var walked []time.Time
		for slot := schedule.Next(begin); within(slot, begin.AddDate(1, 0, 0)); slot = schedule.Next(slot) {
			if len(walked) > 0 && !slot.After(walked[len(walked)-1]) {
				t.Fatalf("%s follows %s", slot, walked[len(walked)-1])
			}
			walked = append(walked, slot)
		}
		for range 50 {
			asked := begin.Add(time.Duration(rapid.Int64Range(0, 364*24*3600).Draw(t, "seconds")) * time.Second)
			next := schedule.Next(asked)
			i, _ := slices.BinarySearchFunc(walked, asked, func(slot, at time.Time) int {
				if slot.After(at) {
					return 1
				}
				return -1
			})
			if i < len(walked) && !next.Equal(walked[i]) || i == len(walked) && within(next, begin.AddDate(1, 0, 0)) {
				t.Fatalf("after %s comes %s", asked, next)
			}
		}
	})
}

// A second, slower evaluator: it looks at every minute of real time, and knows a change of the clocks only by the wall clock.
func TestSlotsAreThoseThatEveryMinuteOfRealTimeSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := schedules.Draw(t, "schedule")
		_, at := moments.Draw(t, "moment").In(schedule.location).ZoneBounds()
		if at.IsZero() {
			return
		}
		from, until := at.Add(-30*time.Hour), at.Add(30*time.Hour)
		want := byTheMinute(schedule, from, until)
		slot := from
		for _, next := range want {
			if slot = schedule.Next(slot); !slot.Equal(next) {
				t.Fatalf("slot %s, want %s", slot, next)
			}
		}
		if slot = schedule.Next(slot); within(slot, until) {
			t.Fatalf("%s is a slot", slot)
		}
	})
}

func byTheMinute(s Schedule, from, until time.Time) (slots []time.Time) {
	matches := func(wall time.Time) bool {
		return s.wall.isOn(wall) && s.wall.hour>>wall.Hour()&1 == 1 && s.wall.minute>>wall.Minute()&1 == 1
	}
	shown, all := map[time.Time][]time.Time{}, map[time.Time]bool{}
	var last time.Time
	for at := from.Add(-48 * time.Hour).Truncate(time.Minute); at.Before(until.Add(48 * time.Hour)); at = at.Add(time.Minute) {
		wall := asShown(at.In(s.location))
		shown[wall] = append(shown[wall], at)
		for left := last.Add(time.Minute); !last.IsZero() && left.Before(wall); left = left.Add(time.Minute) {
			switch {
			case matches(left) && s.gap == GapAfter:
				all[at] = true
			case matches(left) && s.gap == GapBefore:
				all[at.Add(-time.Minute)] = true
			}
		}
		last = wall
	}
	for wall, at := range shown {
		if !matches(wall) {
			continue
		}
		if s.overlap != OverlapSecond {
			all[at[0]] = true
		}
		if s.overlap != OverlapFirst {
			all[at[len(at)-1]] = true
		}
	}
	for at := range all {
		if at.After(from) && !at.After(until) {
			slots = append(slots, at)
		}
	}
	slices.SortFunc(slots, time.Time.Compare)
	return slots
}

func asShown(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

func TestTheZoneOfTheHostDecidesNothing(t *testing.T) {
	host := time.Local
	defer func() { time.Local = host }()
	schedule, from := parse(t, "*/20 1-3 * * *", "Europe/Berlin"), at(t, "2026-03-27T12:00:00Z")
	var first []time.Time
	for _, zone := range []string{"UTC", "Pacific/Apia", "America/Sao_Paulo"} {
		var err error
		if time.Local, err = time.LoadLocation(zone); err != nil {
			t.Fatal(err)
		}
		var slots []time.Time
		for at := from.Local(); len(slots) < 40; {
			at = schedule.Next(at)
			slots = append(slots, at)
		}
		if first = append(first, slots...)[:40]; !slices.EqualFunc(first, slots, time.Time.Equal) {
			t.Errorf("on a host in %s: %v instead of %v", zone, slots, first)
		}
	}
}

func TestLastAndCountAgreeWithWalkingFromSlotToSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := schedules.Draw(t, "schedule")
		after := moments.Draw(t, "after")
		until := after.Add(time.Duration(rapid.Int64Range(-60, 40*24*3600).Draw(t, "seconds")) * time.Second)
		count, last := 0, time.Time{}
		for slot := schedule.Next(after); within(slot, until); slot = schedule.Next(slot) {
			count, last = count+1, slot
		}
		if got := schedule.Count(after, until); got != count {
			t.Fatalf("Count is %d, want %d", got, count)
		}
		if got := schedule.Last(after, until); !got.Equal(last) {
			t.Fatalf("Last is %s, want %s", got, last)
		}
	})
}

func TestSlotsAreCountedAcrossEveryChangeOfTheClocks(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca"} {
		for _, expression := range []string{"*/20 * * * *", "30 2 * * *", "15,45 1-3 * * *", "0 0 * * *"} {
			schedule := parse(t, expression, zone)
			for at := time.Date(2009, 1, 1, 0, 0, 0, 0, schedule.location); at.Year() < 2014; {
				_, change := at.ZoneBounds()
				if change.IsZero() {
					break
				}
				for _, minutes := range []int{-1500, -61, -1, 0, 1, 31, 59, 60, 61, 119, 1439} {
					after := change.Add(time.Duration(minutes) * time.Minute)
					for _, long := range []time.Duration{time.Minute, time.Hour, 49 * time.Hour} {
						until := after.Add(long)
						want := 0
						for slot := schedule.Next(after); within(slot, until); slot = schedule.Next(slot) {
							want++
						}
						if got := schedule.Count(after, until); got != want {
							t.Fatalf("%s in %s after %s until %s: %d, want %d", expression, zone, after, until, got, want)
						}
					}
				}
				at = change.Add(time.Hour)
			}
		}
	}
}

// A walk from slot to slot would not end within the time of a test.
func TestThousandsOfYearsOfAMinutelyScheduleAreCounted(t *testing.T) {
	after, until := at(t, "2000-01-01T00:00:30Z"), at(t, "9999-11-01T00:00:30Z")
	for _, zone := range []string{"UTC", "Europe/Berlin", "Africa/Casablanca"} {
		schedule := parse(t, "* * * * *", zone)
		count, last := schedule.Count(after, until), schedule.Last(after, until)
		// A repeated time counts once, and so does one that is left out.
		all := int(until.Unix()-after.Unix()) / 60
		if count > all || count < all-9999*2*60 || until.Sub(last) != 30*time.Second {
			t.Fatalf("%s: %d slots of %d, the last at %s", zone, count, all, last)
		}
	}
}

func FuzzParse(f *testing.F) {
	for i, seed := range []string{"0 3 * * *", "@daily", "@every 1h", "TZ=UTC 0 0 * * *", "*/5 1-3,7 * jan mon-fri", "?",
		"H H(0-7) H/3 * *", "0 0 L,LW,L-3W,15W * *", "0 0 * * 5L,fri#3,L"} {
		f.Add(seed, "Europe/Berlin", int32(i), "before", "both")
	}
	now := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression, zone string, id int32, gap, overlap string) {
		schedule, err := Parse(Spec{Expression: expression, Zone: zone, ID: id, Gap: Gap(gap), Overlap: Overlap(overlap)})
		if err != nil {
			if !errors.Is(err, ErrSchedule) {
				t.Errorf("error %v is not ErrSchedule", err)
			}
			return
		}
		if next := schedule.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q: %s follows %s", expression, next, now)
		}
	})
}
