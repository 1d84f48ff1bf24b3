package cron

import (
	"strings"
	"testing"
	"time"
)

func TestAnExpressionIsReadAsCrontabSays(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 30, 5, time.UTC) // a Thursday
	for expression, want := range map[string][]string{
		"* * * * *":           {"01-01 00:01", "01-01 00:02"},
		"*/40 1-3 * * *":      {"01-01 01:00", "01-01 01:40", "01-01 02:00"},
		"50/5 0 * * *":        {"01-01 00:50", "01-01 00:55", "01-02 00:50"},
		"10-30/10 5 * * *":    {"01-01 05:10", "01-01 05:20", "01-01 05:30", "01-02 05:10"},
		"0 7,,9,7 ? * *":      {"01-01 07:00", "01-01 09:00", "01-02 07:00"},
		"0 0 31 * *":          {"01-31 00:00", "03-31 00:00"},
		"0 0 29 feb *":        {"02-29 00:00"},
		"0 12 * JAN,dec MON":  {"01-05 12:00", "01-12 12:00"},
		"0 12 * * mon-Wed":    {"01-05 12:00", "01-06 12:00", "01-07 12:00", "01-12 12:00"},
		"0 12 ? * fri-7":      {"01-02 12:00", "01-03 12:00", "01-04 12:00", "01-09 12:00"},
		"0 12 ? * sat-sun":    {"01-03 12:00", "01-04 12:00", "01-10 12:00"},
		"0 12 ? * sun-mon":    {"01-04 12:00", "01-05 12:00", "01-11 12:00"},
		"0 12 ? * 7":          {"01-04 12:00", "01-11 12:00"},
		"0 12 ? * 6/1":        {"01-03 12:00", "01-10 12:00"},
		"0 12 L,15w * ?":      {"01-15 12:00", "01-31 12:00", "02-16 12:00", "02-28 12:00"},
		"0 12 lw * mon#1":     {"01-05 12:00", "01-30 12:00", "02-02 12:00", "02-27 12:00"}, // either kind of day
		"0 12 L-1 * *":        {"01-30 12:00", "02-27 12:00"},
		"0 12 * * 5L,1#2":     {"01-12 12:00", "01-30 12:00", "02-09 12:00", "02-27 12:00"},
		"0 12 L * 1-5":        {"01-01 12:00", "01-02 12:00", "01-05 12:00"},
		"0 12 2 * sun":        {"01-02 12:00", "01-04 12:00", "01-11 12:00"}, // either kind of day
		"0 12 2 */1 *":        {"01-02 12:00", "02-02 12:00"},
		"0 12 */20 * sun":     {"01-01 12:00", "01-04 12:00"}, // a step restricts
		"0 12 */1 * sun":      {"01-04 12:00", "01-11 12:00"}, // a step of one does not
		"@yearly":             {"01-01 00:00"},
		"@monthly":            {"02-01 00:00", "03-01 00:00"},
		"@weekly":             {"01-04 00:00", "01-11 00:00"},
		"@midnight":           {"01-02 00:00"},
		"@hourly":             {"01-01 01:00", "01-01 02:00"},
		"59 23 31 12 *":       {"12-31 23:59", "12-31 23:59"},
		"  0\t3   1 1   *   ": {"01-01 03:00"},
	} {
		schedule, at := parse(t, expression, "UTC"), from
		for _, slot := range want {
			at = schedule.Next(at)
			if got := at.Format("01-02 15:04"); got != slot || at.Second() != 0 || at.Nanosecond() != 0 {
				t.Errorf("%q comes due %s, want %s", expression, at, slot)
			}
		}
	}
}

func TestARefusalNamesTheFieldAndTheFix(t *testing.T) {
	for expression, want := range map[string]string{
		"61 * * * *":        `the minute "61": "61" is no number from 0 to 59`,
		"0 3-25 * * *":      `the hour "3-25": "25" is no number from 0 to 23`,
		"0 0 x * *":         `the day of month "x": "x" is no number from 1 to 31`,
		"0 0 * sun *":       `the month "sun": "sun" is no number from 1 to 12 and no name such as jan`,
		"0 0 * * 8":         `the day of week "8": "8" is no number from 0 to 7`,
		"0 0 * * unm":       `the day of week "unm": "unm" is no number from 0 to 7 and no name such as sun`,
		"0 0 * , *":         `the month ",": write a number from 1 to 12, or *`,
		"9-3 * * * *":       `the minute "9-3": the range begins at 9, behind its end at 3; write two ranges: 9-59,0-3`,
		"0 0 * * fri-mon":   `write two ranges: fri-6,0-mon`,
		"*/0 * * * *":       `the minute "*/0": the step "0" must be a number from 1 on`,
		"*/-5 * * * *":      `the step "-5" must be a number from 1 on`,
		"*/x * * * *":       `the step "x" must be a number from 1 on`,
		"1-2-3 * * * *":     `"2-3" is no number from 0 to 59`,
		"*-5 * * * *":       `"*" is no number from 0 to 59`,
		"1/2/3 * * * *":     `the step "2/3" must be a number from 1 on`,
		"-1 * * * *":        `"" is no number from 0 to 59`,
		"0 3 * *":           "it has 4 fields; write five: minute, hour, day of month, month, day of week",
		"0 0 3 * * *":       "it has 6 fields",
		"@fortnightly":      "write five fields, or @hourly, @daily, @weekly, @monthly or @yearly",
		"L * * * *":         `the minute "L": "L" is no number from 0 to 59`,
		"0 0 L-31 * *":      `the day of month "L-31": "L-31" is no day before the last; write L, L-1 to L-30, LW or L-3W`,
		"0 0 L3 * *":        `"L3" is no day before the last`,
		"0 0 L- * *":        `"L-" is no day before the last`,
		"0 0 15-L * *":      `"L" is no number from 1 to 31`,
		"0 0 W * *":         `the day of month "W": "W" names no weekday; write one day before the W, such as 15W, or LW`,
		"0 0 1-15W * *":     `"1-15W" names no weekday`,
		"0 0 32W * *":       `"32W" names no weekday`,
		"0 0 * * 5W":        `the day of week "5W": "5W" is no number from 0 to 7`,
		"0 0 5#2 * *":       `the day of month "5#2": "5#2" is no number from 1 to 31`,
		"0 0 * * 5#6":       `the day of week "5#6": "6" is no number from 1 to 5 behind #; write such as 5#3 for the third Friday`,
		"0 0 * * fri#":      `"" is no number from 1 to 5 behind #`,
		"0 0 * * 8L":        `the day of week "8L": "8" is no number from 0 to 7`,
		"0 0 * L *":         `the month "L": "L" is no number from 1 to 12`,
		"0 0 * * -1L":       `"-1" is no number from 0 to 7`,
		"H5 * * * *":        `the minute "H5": "H5": behind H comes nothing, a range such as (0-59), a step such as /2, or both`,
		"H(5) * * * *":      `behind H comes nothing`,
		"H(0-29 * * * *":    `behind H comes nothing`,
		"H(0-60) * * * *":   `"60" is no number from 0 to 59`,
		"0 H(8-7) * * *":    `the range begins at 8, behind its end at 7`,
		"H/61 * * * *":      `the step "61" of H must be a number from 2 to 60`,
		"H(0-9)/11 * * * *": `the step "11" of H must be a number from 2 to 10`,
		"H/0 * * * *":       `the step "0" of H must be a number from 2 to 60`,
		"H/1 * * * *":       `for one value write H without a step, for all *`,
		"0 0 H/29 * *":      `the step "29" of H must be a number from 2 to 28`,
		"0 0 * * 1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5": `it has 61 alternatives; write at most 60`,
		"99999999999999999999 * * * *": "is no number from 0 to 59",
	} {
		if _, err := Parse(Spec{Expression: expression, Zone: "UTC"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want %s", expression, err, want)
		}
	}
}

// The largest step is no overflow.
func TestAStepBeyondTheRangeLeavesItsBeginning(t *testing.T) {
	schedule := parse(t, "7/9223372036854775807 3 * * *", "UTC")
	first := schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if next := schedule.Next(first); first.Format("15:04") != "03:07" || next.Sub(first) != 24*time.Hour {
		t.Errorf("due %s, then %s", first, next)
	}
}
