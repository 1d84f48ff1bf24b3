package calendars

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules and their days are examples of RFC 5545, section 3.8.5.3.
func TestRulesHaveTheDaysOfTheirStandard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ start, rule, days string }{
		{"1997-09-02", "FREQ=DAILY;COUNT=10", "97-09-02 97-09-03 97-09-04 97-09-05 97-09-06 97-09-07 97-09-08 97-09-09 97-09-10 97-09-11"},
		{"1997-09-02", "FREQ=DAILY;INTERVAL=10;COUNT=5", "97-09-02 97-09-12 97-09-22 97-10-02 97-10-12"},
		{"1997-09-02", "FREQ=WEEKLY;COUNT=3", "97-09-02 97-09-09 97-09-16"},
		{"1997-09-01", "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971018T000000Z;WKST=SU;BYDAY=MO,WE,FR", "97-09-01 97-09-03 97-09-05 97-09-15 97-09-17 97-09-19 97-09-29 97-10-01 97-10-03 97-10-13 97-10-15 97-10-17"},
		{"1997-09-05", "FREQ=MONTHLY;COUNT=10;BYDAY=1FR", "97-09-05 97-10-03 97-11-07 97-12-05 98-01-02 98-02-06 98-03-06 98-04-03 98-05-01 98-06-05"},
		{"1997-09-07", "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU", "97-09-07 97-09-28 97-11-02 97-11-30 98-01-04 98-01-25 98-03-01 98-03-29 98-05-03 98-05-31"},
		{"1997-09-22", "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", "97-09-22 97-10-20 97-11-17 97-12-22 98-01-19 98-02-16"},
		{"1997-09-28", "FREQ=MONTHLY;BYMONTHDAY=-3;UNTIL=19980226", "97-09-28 97-10-29 97-11-28 97-12-29 98-01-29 98-02-26"},
		{"1997-09-30", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1", "97-09-30 97-10-01 97-10-31 97-11-01 97-11-30 97-12-01 97-12-31 98-01-01 98-01-31 98-02-01"},
		{"1997-06-10", "FREQ=YEARLY;COUNT=4;BYMONTH=6,7", "97-06-10 97-07-10 98-06-10 98-07-10"},
		{"1997-05-19", "FREQ=YEARLY;BYDAY=20MO;COUNT=3", "97-05-19 98-05-18 99-05-17"},
		{"1997-03-13", "FREQ=YEARLY;BYMONTH=3;BYDAY=TH;COUNT=7", "97-03-13 97-03-20 97-03-27 98-03-05 98-03-12 98-03-19 98-03-26"},
		{"1997-09-02", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;COUNT=5", "98-02-13 98-03-13 98-11-13 99-08-13 00-10-13"},
		{"1996-11-05", "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8;COUNT=3", "96-11-05 00-11-07 04-11-02"},
		{"1997-09-04", "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "97-09-04 97-10-07 97-11-06"},
		{"1997-09-29", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2;COUNT=7", "97-09-29 97-10-30 97-11-27 97-12-30 98-01-29 98-02-26 98-03-30"},
		{"1997-08-05", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "97-08-05 97-08-10 97-08-19 97-08-24"},
		{"1997-08-05", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "97-08-05 97-08-17 97-08-19 97-08-31"},
		{"2007-01-15", "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "07-01-15 07-01-30 07-02-15 07-03-15 07-03-30"},
		{"2024-02-29", "FREQ=YEARLY;COUNT=3", "24-02-29 28-02-29 32-02-29"},
	} {
		calendar, err := Of("UTC", []Entry{{Name: "x", Start: c.start, Rule: c.rule}})
		require.NoError(t, err, c.rule)
		var days []string
		start, _, _ := readStamp(c.start)
		for at := moment(start, calendar.entries[0].zone).AddDate(0, 0, -3); at.Year() < 2040; {
			from, until := calendar.Begins(at, true)
			if from.IsZero() {
				break
			}
			for ; from.Before(until); from = from.AddDate(0, 0, 1) {
				days = append(days, from.Format("06-01-02"))
			}
			at = until
		}
		require.Equal(t, c.days, strings.Join(days, " "), "%s from %s", c.rule, c.start)
	}
}

func TestWhatIsNoRuleIsRefusedWithItsPart(t *testing.T) {
	t.Parallel()
	for rule, says := range map[string]string{
		"FREQ=HOURLY": "FREQ must be DAILY", "INTERVAL=2": "FREQ must be", "FREQ=YEARLY;BYWEEKNO=20": "BYWEEKNO=20 is not read here",
		"FREQ=DAILY;INTERVAL=0": "INTERVAL=0 is no number from 1 to 10000", "FREQ=WEEKLY;BYDAY=1MO": "BYDAY with a number",
		"FREQ=MONTHLY;BYDAY=XX": "BYDAY=XX is no day", "FREQ=DAILY;UNTIL=soon": "UNTIL=SOON is no time", "FREQ=MONTHLY;BYMONTHDAY=0": "no day 0",
		"FREQ=DAILY;BYHOUR=3": "BYHOUR=3 is not read here", "FREQ=YEARLY;WKST=XX": "WKST=XX is no day",
	} {
		_, err := Of("UTC", []Entry{{Name: "Neujahr", Start: "2026-01-01", Rule: rule}})
		require.ErrorIs(t, err, ErrCalendar, rule)
		require.ErrorContains(t, err, "entry 1 (Neujahr)")
		require.ErrorContains(t, err, says)
	}
}

// However a calendar is written, working it out ends: days that never come, rules that begin long ago, as many as there may be.
func TestWorkingACalendarOutIsBounded(t *testing.T) {
	t.Parallel()
	never, err := Of("UTC", []Entry{{Name: "x", Start: "1900-01-01", Rule: "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"}})
	require.NoError(t, err)
	from, _ := never.Begins(moment(stamp{day: 20000}, never.entries[0].zone), true)
	require.Zero(t, from)
	var counted []Entry
	for i := range MaxRules {
		counted = append(counted, Entry{Name: fmt.Sprint(i), Start: "1900-01-01", Rule: "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=1"})
	}
	_, err = Of("UTC", counted)
	require.ErrorContains(t, err, "take too long to follow: write UNTIL instead")
	for i := range counted {
		counted[i].Rule = "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1"
	}
	calendar, err := Of("UTC", counted)
	require.NoError(t, err)
	require.Len(t, calendar.year(2026), 25)
	_, err = Of("UTC", append(counted, counted[0]))
	require.ErrorContains(t, err, "it has 101 entries with a rule; at most 100 may be")
}

// One of many short times is refused; the greatest that there may be is asked for its next times over twelve years, and keeps little.
func TestACalendarOfManyTimesIsBounded(t *testing.T) {
	t.Parallel()
	var rota []Entry
	for i := range 96 {
		start := fmt.Sprintf("2026-01-01T%02d:%02d", i/4, i%4*15)
		end := fmt.Sprintf("2026-01-01T%02d:%02d", (i+1)/4, (i+1)%4*15)
		if i == 95 {
			end = "2026-01-02"
		}
		rota = append(rota, Entry{Name: fmt.Sprint(i), Start: start, End: end, Rule: "FREQ=DAILY"})
	}
	_, err := Of("UTC", rota)
	require.ErrorContains(t, err, "entry 5 (4): with it the rules of this calendar begin more than 1500 times a year")
	rota[3].End = "2026-01-02"
	closed, err := Of("UTC", rota[:4])
	require.NoError(t, err)
	off, _ := closed.Begins(when(t, "2026-03-01 02:20"), false)
	require.Zero(t, off, "it has all times")
	require.LessOrEqual(t, closed.Kept(), mostKept)
}
