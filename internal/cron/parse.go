package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// star is the bit of a field that restricts no day: it is * or ?, without a step.
const star = 1 << 63

// searched is the number of years in which a slot is looked for: 30 February has none, and a 29 February that is a Monday may
// come after 40 years, across a century without a leap day.
const searched = 41

// maxAlternatives bounds a field's list: one for each minute.
const maxAlternatives = 60

// fields are what an expression allows, a bit for each value, and the days that depend on the month.
type fields struct {
	minute, hour, dom, month, dow uint64
	days                          days
	// periodic says that the schedule runs every so many minutes rather than at chosen times: its minute has * or a step, or it
	// runs in every hour. cron(8) of Vixie's line distinguishes the same: it corrects changes of the clocks for "jobs that run
	// at a specific time and jobs that run with a granularity greater than one hour" (man.openbsd.org/cron).
	periodic bool
}

// field is one of the five fields of an expression.
type field struct {
	name     string
	min, max int
	hashed   int    // the largest value that H takes
	words    string // three letters each, for the values from min on
	of       func(*fields) *uint64
}

// dayOfMonth and dayOfWeek are the indexes of fields in which L, W and # may stand.
const minute, dayOfMonth, dayOfWeek = 0, 2, 4

var five = []field{
	{"minute", 0, 59, 59, "", func(f *fields) *uint64 { return &f.minute }},
	{"hour", 0, 23, 23, "", func(f *fields) *uint64 { return &f.hour }},
	{"day of month", 1, 31, 28, "", func(f *fields) *uint64 { return &f.dom }},
	{"month", 1, 12, 12, "janfebmaraprmayjunjulaugsepoctnovdec", func(f *fields) *uint64 { return &f.month }},
	{"day of week", 0, 7, 6, "sunmontuewedthufrisat", func(f *fields) *uint64 { return &f.dow }},
}

var shorthands = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func read(expression string, id int32) (all fields, err error) {
	if strings.HasPrefix(expression, "@") {
		long, known := shorthands[expression]
		if !known {
			return all, fmt.Errorf("write five fields, or @hourly, @daily, @weekly, @monthly or @yearly")
		}
		expression = long
	}
	written := strings.Fields(expression)
	if len(written) != len(five) {
		return all, fmt.Errorf("it has %d fields; write five: minute, hour, day of month, month, day of week", len(written))
	}
	for i := range five {
		if err = all.readField(i, written[i], id); err != nil {
			return all, fmt.Errorf("the %s %q: %w", five[i].name, written[i], err)
		}
	}
	all.periodic = all.periodic || bits.OnesCount64(all.hour&(1<<24-1)) == 24
	return all, nil
}

// readField reads a list of values and ranges with steps, and of H, L, W and #.
func (f *fields) readField(i int, written string, id int32) error {
	parts := strings.Split(written, ",")
	if len(parts) > maxAlternatives {
		return fmt.Errorf("it has %d alternatives; write at most %d", len(parts), maxAlternatives)
	}
	var allowed uint64
	found := false
	for _, part := range parts {
		if part == "" {
			continue
		}
		some, err := f.readPart(i, part, id)
		if err != nil {
			return err
		}
		allowed, found = allowed|some, true
		f.periodic = f.periodic || i == minute && strings.ContainsAny(part, "*?/") && bits.OnesCount64(some&^star) > 1
	}
	if !found {
		return fmt.Errorf("write a number from %d to %d, or *", five[i].min, five[i].max)
	}
	if i == dayOfWeek && allowed>>7&1 == 1 {
		allowed = allowed&^(1<<7) | 1 // 7 is Sunday, as 0 is
	}
	*five[i].of(f) = allowed
	return nil
}

func (f *fields) readPart(i int, part string, id int32) (allowed uint64, err error) {
	known := false
	switch i {
	case dayOfMonth:
		known, err = f.days.readDayOfMonth(five[i], part)
	case dayOfWeek:
		if strings.EqualFold(part, "L") {
			return 1 << time.Saturday, nil
		}
		known, err = f.days.readDayOfWeek(five[i], part)
	}
	switch {
	case known || err != nil:
		return 0, err
	case part[0] == 'H' || part[0] == 'h':
		return five[i].readHash(part, id)
	}
	return five[i].readRange(part)
}

// readRange reads *, 5, 1-5, */10, 5/10 (from 5 on) or 1-30/10.
func (f field) readRange(written string) (allowed uint64, err error) {
	values, every, stepped := strings.Cut(written, "/")
	first, last, ranged := strings.Cut(values, "-")
	low, high, says := f.min, f.largest(), uint64(star)
	if first != "*" && first != "?" || ranged {
		says = 0
		switch {
		case ranged:
			low, high, err = f.span(first, last)
		case stepped:
			low, err = f.value(first)
		default:
			low, err = f.value(first)
			high = low
		}
		if err != nil {
			return 0, err
		}
	}
	step := 1
	if stepped {
		if step, err = strconv.Atoi(every); err != nil || step < 1 {
			return 0, fmt.Errorf("the step %q must be a number from 1 on", every)
		}
	}
	if step > 1 {
		says = 0
	}
	high = max(low, high) // 7/2 as a day of the week
	for v := low; v <= high; v += min(step, f.max+1) {
		allowed |= 1 << v
	}
	return allowed | says, nil
}

// largest is the last value of *: Sunday counts once.
func (f field) largest() int {
	if f.max == 7 {
		return 6
	}
	return f.max
}

// span reads the ends of a range. A Sunday at its end is the seventh day of the week.
func (f field) span(first, last string) (low, high int, err error) {
	if low, err = f.value(first); err != nil {
		return 0, 0, err
	}
	if high, err = f.value(last); err != nil {
		return 0, 0, err
	}
	if strings.EqualFold(last, "sun") && low > 0 {
		high = f.max
	}
	if low > high {
		return 0, 0, fmt.Errorf("the range begins at %d, behind its end at %d; write two ranges: %s-%d,%d-%s", low, high, first, f.largest(), f.min, last)
	}
	return low, high, nil
}

// value reads a number or a name.
func (f field) value(written string) (int, error) {
	if at := strings.Index(f.words, strings.ToLower(written)); len(written) == 3 && at >= 0 && at%3 == 0 {
		return f.min + at/3, nil
	}
	v, err := strconv.Atoi(written)
	if err != nil || v < f.min || v > f.max {
		return 0, fmt.Errorf("%q is no number from %d to %d%s", written, f.min, f.max, f.names())
	}
	return v, nil
}

func (f field) names() string {
	if f.words == "" {
		return ""
	}
	return fmt.Sprintf(" and no name such as %s", f.words[:3])
}

// isOn says whether a day has slots. As in crontab(5), where both kinds of day are restricted, one of them is enough.
func (f *fields) isOn(day time.Time) bool {
	if f.month>>uint(day.Month())&1 == 0 {
		return false
	}
	ofMonth := f.dom>>uint(day.Day())&1 == 1 || f.days.areOfMonth() && f.days.hasDayOfMonth(day)
	ofWeek := f.dow>>uint(day.Weekday())&1 == 1 || f.days.hasDayOfWeek(day)
	if (f.dom|f.dow)&star != 0 {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

// next is the first wall time of the schedule after a time and not after until; zero where there is none.
func (f *fields) next(after, until time.Time) time.Time {
	for at := after.Truncate(time.Minute).Add(time.Minute); !at.After(until); {
		if f.month>>uint(at.Month())&1 == 0 {
			at = time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if f.isOn(at) {
			if minute, found := f.within(at.Hour(), at.Minute()); found {
				if at = time.Date(at.Year(), at.Month(), at.Day(), 0, minute, 0, 0, time.UTC); at.After(until) {
					break
				}
				return at
			}
		}
		at = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// any says whether the schedule has a wall time from one time on and before another.
func (f *fields) any(from, until time.Time) bool {
	return !f.next(from.Add(-1), until.Add(-1)).IsZero()
}

// within is the first slot of a day from an hour and a minute on, in minutes.
func (f *fields) within(hour, minute int) (int, bool) {
	for hours := f.hour & (1<<24 - 1) >> hour << hour; hours != 0; hours &= hours - 1 {
		h, minutes := bits.TrailingZeros64(hours), f.minute&(1<<60-1)
		if h == hour {
			minutes = minutes >> minute << minute
		}
		if minutes != 0 {
			return h*60 + bits.TrailingZeros64(minutes), true
		}
	}
	return 0, false
}
