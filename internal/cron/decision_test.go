package cron

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestADecisionSaysWhatBecameOfTheSlotsOfAChange(t *testing.T) {
	for name, c := range map[string]struct {
		spec         Spec
		after, until string
		want         []Decision
	}{
		"left out, runs behind": {Spec{Expression: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z",
			[]Decision{{At: at(t, "2026-03-29T01:00:00Z"), Before: at(t, "2026-03-29T02:00:00Z"), Behind: at(t, "2026-03-29T03:00:00Z"),
				First: at(t, "2026-03-29T02:30:00Z"), Last: at(t, "2026-03-29T02:30:00Z"), Count: 1, Gap: GapAfter}}},
		"left out, runs before": {Spec{Expression: "*/20 2 * * *", Zone: "Europe/Berlin", Gap: GapBefore}, "2026-03-28T12:00:00Z", "2026-03-29T00:59:00Z",
			[]Decision{{At: at(t, "2026-03-29T01:00:00Z"), Before: at(t, "2026-03-29T02:00:00Z"), Behind: at(t, "2026-03-29T03:00:00Z"),
				First: at(t, "2026-03-29T02:00:00Z"), Last: at(t, "2026-03-29T02:40:00Z"), Count: 3, Gap: GapBefore}}},
		"shown twice, the first": {Spec{Expression: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z",
			[]Decision{{At: at(t, "2026-10-25T01:00:00Z"), Before: at(t, "2026-10-25T03:00:00Z"), Behind: at(t, "2026-10-25T02:00:00Z"),
				First: at(t, "2026-10-25T02:30:00Z"), Last: at(t, "2026-10-25T02:30:00Z"), Count: 1, Overlap: OverlapFirst}}},
		"no slot in the gap":        {Spec{Expression: "30 4 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T03:00:00Z", nil},
		"a change that is too late": {Spec{Expression: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-27T12:00:00Z", "2026-03-28T01:30:00Z", nil},
		"a change that has passed":  {Spec{Expression: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", nil},
		"no changes at all":         {Spec{Expression: "30 2 * * *", Zone: "UTC"}, "2026-03-29T01:00:00Z", "2036-03-30T00:30:00Z", nil},
	} {
		schedule, err := Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		got := schedule.Decisions(at(t, c.after), at(t, c.until))
		if len(got) != len(c.want) || len(got) == 1 && got[0] != c.want[0] {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Where no decision is named, every policy gives the same slots.
func TestPoliciesMatterOnlyWhereADecisionIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{Expression: expressions.Draw(t, "expression"), Zone: zones.Draw(t, "zone"), ID: 7}
		from := moments.Draw(t, "from")
		until := from.Add(time.Duration(rapid.Int64Range(1, 90*24*3600).Draw(t, "seconds")) * time.Second)
		counts, decided := map[int]bool{}, false
		for _, gap := range []Gap{GapAfter, GapSkip, GapBefore} {
			for _, overlap := range []Overlap{OverlapFirst, OverlapSecond, OverlapBoth} {
				spec.Gap, spec.Overlap = gap, overlap
				schedule, err := Parse(spec)
				if err != nil {
					t.Fatal(err)
				}
				counts[schedule.Count(from, until)] = true
				decided = decided || len(schedule.Decisions(from, until)) > 0
			}
		}
		if len(counts) > 1 && !decided {
			t.Fatalf("the policies lead to %v slots, and no decision says so", counts)
		}
	})
}

func TestADecisionOfAMinutelyScheduleCountsTheHour(t *testing.T) {
	schedule := parse(t, "* * * * *", "Europe/Berlin")
	got := schedule.Decisions(at(t, "2026-01-01T00:00:00Z"), at(t, "2027-01-01T00:00:00Z"))
	if len(got) != 2 || got[0].Gap != GapSkip || got[0].Count != 60 || got[1].Overlap != OverlapBoth || got[1].Count != 60 {
		t.Errorf("%+v", got)
	}
}
