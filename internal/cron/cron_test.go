package cron

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func parse(t interface{ Fatal(...any) }, expression, zone string) Schedule {
	s, err := Parse(expression, zone)
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
		"Berlin, autumn: the hour after the repeated one": {"0 * * * *", "Europe/Berlin", "2026-10-25T01:30:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"}},
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
		if _, err := Parse(c.expression, c.zone); !errors.Is(err, ErrSchedule) {
			t.Errorf("Parse(%q, %q): %v, want ErrSchedule", c.expression, c.zone, err)
		}
	}
}

var (
	zones = rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
		"Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca", "America/St_Johns"})
	expressions = rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "15,45 1-3 * * *",
		"0 0 * * *", "59 23 * * *", "*/20 0-4 * * 0", "0 12 1 * *", "5 4 * * 1-5", "@hourly", "@weekly", "0 0 29 2 *"})
	moments = rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(1_200_000_000, 1_900_000_000).Draw(t, "second"), 0)
	})
)

func TestSlotsIncreaseAndStandOnTheWall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := parse(t, expressions.Draw(t, "expression"), zones.Draw(t, "zone"))
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

func TestLastAndCountAgreeWithWalkingFromSlotToSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := parse(t, expressions.Draw(t, "expression"), zones.Draw(t, "zone"))
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

func TestDecadesOfAMinutelyScheduleAreCountedInMilliseconds(t *testing.T) {
	after, until := at(t, "2000-01-01T00:00:30Z"), at(t, "2026-11-01T00:00:30Z")
	for _, zone := range []string{"UTC", "Europe/Berlin", "Africa/Casablanca"} {
		schedule := parse(t, "* * * * *", zone)
		best := time.Hour
		for range 5 {
			began := time.Now()
			count, last := schedule.Count(after, until), schedule.Last(after, until)
			best = min(best, time.Since(began))
			// Of what the clocks repeat and leave out the former counts once, the latter once.
			if all := int(until.Sub(after) / time.Minute); count > all || count < all-24*60*60 || until.Sub(last) != 30*time.Second {
				t.Fatalf("%s: %d slots of %d, the last at %s", zone, count, all, last)
			}
		}
		t.Logf("%s: %s", zone, best)
		if best > 50*time.Millisecond {
			t.Errorf("%s: counted in %s", zone, best)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0 3 * * *", "@daily", "@every 1h", "TZ=UTC 0 0 * * *", "*/5 1-3,7 * jan mon-fri", "?"} {
		f.Add(seed, "Europe/Berlin")
	}
	now := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression, zone string) {
		schedule, err := Parse(expression, zone)
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
