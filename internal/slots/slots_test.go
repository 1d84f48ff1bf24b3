package slots

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/echomind/sync/internal/cron"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

func schedule(t *testing.T, expression, zone string, p Policies) Schedule {
	t.Helper()
	s, err := cron.Parse(cron.Spec{Expression: expression, Zone: zone, ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p.CatchUp == "" {
		p.CatchUp = CatchUpLatest
	}
	if p.Overlap == "" {
		p.Overlap = OverlapSkip
	}
	return Cron(s, p)
}

func answer(verdict, reason, first, last string, n int) Answer {
	return Answer{Verdict: verdict, Reason: reason, First: at(first), Last: at(last), Count: n}
}

func TestAPeriodBeginsAtMidnightOfItsZoneAlsoWhereTheClocksChangeThen(t *testing.T) {
	for _, c := range []struct {
		period            Period
		zone              string
		of, begin, before string
		name              string
	}{
		{Day, "UTC", "2026-02-06 10:00", "2026-02-06 00:00", "2026-02-07 00:00", "2026-02-06"},
		{Day, "Europe/Berlin", "2026-02-06 23:30", "2026-02-06 23:00", "2026-02-07 23:00", "2026-02-07"},
		{Day, "Europe/Berlin", "2026-03-29 10:00", "2026-03-28 23:00", "2026-03-29 22:00", "2026-03-29"},     // of 23 hours
		{Day, "America/Sao_Paulo", "2018-11-04 12:00", "2018-11-04 03:00", "2018-11-05 02:00", "2018-11-04"}, // begins at 01:00
		{Day, "America/Sao_Paulo", "2018-02-17 12:00", "2018-02-17 02:00", "2018-02-18 03:00", "2018-02-17"}, // 23:00 twice
		{Day, "America/Havana", "2026-11-01 12:00", "2026-11-01 04:00", "2026-11-02 05:00", "2026-11-01"},    // 00:00 twice
		{Week, "UTC", "2026-02-01 10:00", "2026-01-26 00:00", "2026-02-02 00:00", "2026-W05"},
		{Week, "UTC", "2026-02-02 00:00", "2026-02-02 00:00", "2026-02-09 00:00", "2026-W06"},
		{Month, "Asia/Tokyo", "2026-01-31 15:00", "2026-01-31 15:00", "2026-02-28 15:00", "2026-02"},
	} {
		in, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := c.period.around(at(c.of), in)
		if !begin.Equal(at(c.begin)) || !end.Equal(at(c.before)) || c.period.name(begin, in) != c.name {
			t.Errorf("%s of %s in %s: %s to %s, %s", c.period, c.of, c.zone, begin.UTC(), end.UTC(), c.period.name(begin, in))
		}
	}
}

func TestTheFirstRuleThatFitsDecides(t *testing.T) {
	s := schedule(t, "0 * * * *", "UTC", Policies{OncePer: Day, Deadline: 2 * time.Hour, Window: time.Hour, CatchUp: CatchUpAll, Most: 5})
	claim := s.Claim(at("2026-02-05 20:00"), State{
		ClaimedAt: at("2026-02-05 22:30"), OverAt: at("2026-02-06 01:30"), Completed: []time.Time{at("2026-02-05 22:00")},
	}, at("2026-02-06 06:10"))
	want := []Answer{
		answer(Skipped, AlreadyCompleted+"2026-02-05", "2026-02-05 20:00", "2026-02-05 23:00", 4),
		answer(Skipped, NotOver, "2026-02-06 00:00", "2026-02-06 01:00", 2),
		answer(Missed, TooLate, "2026-02-06 02:00", "2026-02-06 04:00", 3),
		answer(Missed, NotCaughtUp, "2026-02-06 05:00", "2026-02-06 05:00", 1),
	}
	if !claim.Run.Equal(at("2026-02-06 06:00")) || !reflect.DeepEqual(utc(claim.Passed), want) {
		t.Errorf("%s runs, and\n%v", claim.Run, utc(claim.Passed))
	}
}

func utc(all []Answer) []Answer {
	for i := range all {
		all[i].First, all[i].Last = all[i].First.UTC(), all[i].Last.UTC()
	}
	return all
}

func TestASlotExactlyAtItsDeadlineIsInTime(t *testing.T) {
	s := schedule(t, "0 3 * * *", "UTC", Policies{Deadline: time.Hour})
	if c := s.Claim(at("2026-02-05 03:00"), State{}, at("2026-02-05 04:00")); c.Run.IsZero() {
		t.Error("it does not run")
	}
	c := s.Claim(at("2026-02-05 03:00"), State{}, at("2026-02-05 04:00").Add(time.Nanosecond))
	if !c.Run.IsZero() {
		t.Error("it runs")
	}
	p := s.Plan(State{Through: at("2026-02-05 02:59")}, at("2026-02-05 04:00").Add(time.Nanosecond))
	if !p.Next.Equal(at("2026-02-06 03:00")) || !reflect.DeepEqual(utc(p.Passed), []Answer{answer(Missed, TooLate, "2026-02-05 03:00", "2026-02-05 03:00", 1)}) {
		t.Errorf("next %s, and %v", p.Next, p.Passed)
	}
}

func TestAllCatchesUpTheLatestOfManyYears(t *testing.T) {
	s := schedule(t, "* * * * *", "Europe/Berlin", Policies{CatchUp: CatchUpAll, Most: 1000})
	now := at("2026-02-05 12:00")
	c := s.Claim(at("2001-01-01 00:00"), State{}, now)
	if want := now.Add(-999 * time.Minute); !c.Run.Equal(want) || len(c.Passed) != 1 || !c.Passed[0].Last.Equal(want.Add(-time.Minute)) {
		t.Errorf("%s runs, and %v", c.Run, c.Passed)
	}
	if n := c.Passed[0].Count; n != int(c.Passed[0].Last.Sub(c.Passed[0].First)/time.Minute)+1 {
		t.Errorf("%d slots are missed", n)
	}
}

func TestEachSlotHasOneAnswerWhateverThePolicies(t *testing.T) {
	for _, overlap := range []string{OverlapSkip, OverlapQueue} {
		for _, catchUp := range []string{CatchUpNone, CatchUpLatest, CatchUpAll} {
			for _, per := range []Period{"", Day, Week, Month} {
				for _, deadline := range []time.Duration{0, 3 * time.Hour} {
					s := schedule(t, "*/20 * * * *", "Europe/Berlin", Policies{
						Overlap: overlap, CatchUp: catchUp, OncePer: per, Deadline: deadline, Most: 4, Window: 30 * time.Hour,
					})
					state := State{Through: at("2026-03-26 10:00"), ClaimedAt: at("2026-03-27 01:10"), OverAt: at("2026-03-28 22:10"), Completed: []time.Time{at("2026-03-27 01:00")}}
					now := at("2026-03-29 20:05")
					through := state.Through
					follows := func(a Answer) {
						if next := s.times.Next(through); !next.Equal(a.First) || a.Count != s.times.Count(through, a.Last) {
							t.Fatalf("%v behind %s, want %s", a, through, next)
						}
						through = a.Last
					}
					plan := s.Plan(state, now)
					for _, a := range plan.Passed {
						follows(a)
					}
					if !plan.Through.Equal(through) {
						t.Fatalf("answered up to %s, and it says %s", through, plan.Through)
					}
					if plan.Next.After(now) {
						continue
					}
					state.Through = plan.Through
					claim := s.Claim(plan.Next, state, now)
					if claim.Run.IsZero() {
						t.Fatal("nothing runs")
					}
					all := slices.Concat(claim.Passed, []Answer{{First: claim.Run, Last: claim.Run, Count: 1}})
					slices.SortFunc(all, func(a, b Answer) int { return a.First.Compare(b.First) })
					for _, a := range all {
						follows(a)
					}
					if !claim.Through.Equal(through) {
						t.Fatalf("answered up to %s, and it says %s", through, claim.Through)
					}
				}
			}
		}
	}
}

func TestSlotsThatCameWhileASyncWasUnderWayAreSkippedBehindOneThatWaitedBeforeIt(t *testing.T) {
	s := schedule(t, "0 * * * *", "UTC", Policies{})
	// Somebody has asked for a sync while 09:00 waited.
	c := s.Claim(at("2026-02-05 09:00"), State{
		Through: at("2026-02-05 07:00"), ClaimedAt: at("2026-02-05 09:10"), OverAt: at("2026-02-05 11:30"),
	}, at("2026-02-05 11:30"))
	want := []Answer{
		answer(Missed, Passed, "2026-02-05 08:00", "2026-02-05 08:00", 1), answer(Skipped, NotOver, "2026-02-05 10:00", "2026-02-05 11:00", 2),
	}
	if !c.Run.Equal(at("2026-02-05 09:00")) || !c.Through.Equal(at("2026-02-05 11:00")) || !reflect.DeepEqual(utc(c.Passed), want) {
		t.Errorf("%s runs, answered up to %s, and\n%v", c.Run, c.Through, utc(c.Passed))
	}
}

func TestSlotsOfACompletedPeriodWaitForTheirLineUntilItIsOver(t *testing.T) {
	s := schedule(t, "0 * * * *", "UTC", Policies{OncePer: Day})
	state := State{Through: at("2026-02-05 06:00"), ClaimedAt: at("2026-02-05 06:00"), OverAt: at("2026-02-05 09:30"), Completed: []time.Time{at("2026-02-05 06:00")}}
	if p := s.Plan(state, at("2026-02-05 09:30")); len(p.Passed) != 0 || !p.Through.Equal(state.Through) || !p.Next.Equal(at("2026-02-06 00:00")) {
		t.Errorf("%+v", p)
	}
	all := answer(Skipped, AlreadyCompleted+"2026-02-05", "2026-02-05 07:00", "2026-02-05 23:00", 17)
	if c := s.Claim(at("2026-02-06 00:00"), state, at("2026-02-06 00:00")); !reflect.DeepEqual(utc(c.Passed), []Answer{all}) {
		t.Errorf("%+v", c)
	}
	// Its user takes them away in the middle.
	some := answer(Skipped, AlreadyCompleted+"2026-02-05", "2026-02-05 07:00", "2026-02-05 12:00", 6)
	if got := s.GivenUp(state, at("2026-02-05 12:30"), "switched off"); !reflect.DeepEqual(utc(got), []Answer{some}) {
		t.Errorf("%+v", got)
	}
	rest := []Answer{all, answer(Missed, "switched off", "2026-02-06 00:00", "2026-02-06 02:00", 3)}
	if got := s.GivenUp(state, at("2026-02-06 02:30"), "switched off"); !reflect.DeepEqual(utc(got), rest) {
		t.Errorf("%+v", got)
	}
}

func TestTwoPeriodsMayHaveCompleted(t *testing.T) {
	s := schedule(t, "0 6,18 * * *", "UTC", Policies{OncePer: Day, CatchUp: CatchUpAll, Most: 10})
	// Somebody has asked for a sync on the 5th, and then the first slot of the 3rd was caught up.
	p := s.Plan(State{
		Through: at("2026-02-03 06:00"), ClaimedAt: at("2026-02-05 10:00"), OverAt: at("2026-02-05 10:10"),
		Completed: []time.Time{at("2026-02-05 09:00"), at("2026-02-03 06:00")},
	}, at("2026-02-05 10:10"))
	if !p.Next.Equal(at("2026-02-04 06:00")) || !reflect.DeepEqual(utc(p.Passed), []Answer{answer(Skipped, AlreadyCompleted+"2026-02-03", "2026-02-03 18:00", "2026-02-03 18:00", 1)}) {
		t.Errorf("%+v", p)
	}
}

func TestIdsThatFollowEachOtherLieFarApart(t *testing.T) {
	parts := map[int]int{}
	for id := range int32(10000) {
		parts[int(Share(id+1)*100)]++
	}
	for part, n := range parts {
		if n < 98 || n > 102 {
			t.Errorf("part %d of 100 has %d of 10,000", part, n)
		}
	}
}

func TestThePageHasTheRulesInTheirOrder(t *testing.T) {
	page, err := os.ReadFile("../../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, m := range regexp.MustCompile("(?m)^\\| \\d \\|.*\\| `([^`]+)` \\|$").FindAllStringSubmatch(string(page), -1) {
		rules = append(rules, m[1])
	}
	want := []string{Skipped + ": " + AlreadyCompleted + "2026-02-06", Skipped + ": " + NotOver, Missed + ": " + TooLate, Missed + ": " + NotCaughtUp, Missed + ": " + Passed}
	if !slices.Equal(rules, want) {
		t.Errorf("the page has %q, want %q", rules, want)
	}
}

func BenchmarkClaim(b *testing.B) {
	for name, of := range map[string]struct{ expression, since string }{
		"slots=1": {"0 3 * * *", "2026-02-05 03:00"}, "slots=1M": {"* * * * *", "2024-03-15 00:00"},
	} {
		parsed, err := cron.Parse(cron.Spec{Expression: of.expression, Zone: "Europe/Berlin"})
		if err != nil {
			b.Fatal(err)
		}
		s := Cron(parsed, Policies{Overlap: OverlapSkip, CatchUp: CatchUpAll, Most: 10, OncePer: Day, Deadline: 12 * time.Hour, Window: time.Hour})
		state := State{ClaimedAt: at("2026-02-04 03:00"), OverAt: at("2026-02-04 03:10"), Completed: []time.Time{at("2026-02-04 03:00")}}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if c := s.Claim(at(of.since), state, at("2026-02-05 03:00")); c.Run.IsZero() {
					b.Fatal("nothing runs")
				}
			}
		})
	}
}
