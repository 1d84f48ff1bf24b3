package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// star is the bit by which a field says nothing of the day: it is * or ?, without a step.
const star = 1 << 63

// searched is for how many years a slot is looked for: 30 February has none.
const searched = 5

// fields are what an expression allows, a bit for each value.
type fields struct{ minute, hour, dom, month, dow uint64 }

// field is one of an expression's five.
type field struct {
	name     string
	min, max int
	words    string // three letters each, of the values from min on
	of       func(*fields) *uint64
}

var five = []field{
	{"minute", 0, 59, "", func(f *fields) *uint64 { return &f.minute }},
	{"hour", 0, 23, "", func(f *fields) *uint64 { return &f.hour }},
	{"day of month", 1, 31, "", func(f *fields) *uint64 { return &f.dom }},
	{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec", func(f *fields) *uint64 { return &f.month }},
	{"day of week", 0, 6, "sunmontuewedthufrisat", func(f *fields) *uint64 { return &f.dow }},
}

var shorthands = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func read(expression string) (all fields, err error) {
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
	for i, f := range five {
		if *f.of(&all), err = f.parse(written[i]); err != nil {
			return all, fmt.Errorf("the %s %q: %w", f.name, written[i], err)
		}
	}
	return all, nil
}

// parse reads a list of values, ranges and steps.
func (f field) parse(written string) (allowed uint64, err error) {
	for _, part := range strings.Split(written, ",") {
		if part == "" {
			continue
		}
		some, err := f.parseRange(part)
		if err != nil {
			return 0, err
		}
		allowed |= some
	}
	if allowed == 0 {
		return 0, fmt.Errorf("write a number from %d to %d, or *", f.min, f.max)
	}
	return allowed, nil
}

// parseRange reads *, 5, 1-5, */10, 5/10 (from 5 on) or 1-30/10.
func (f field) parseRange(written string) (allowed uint64, err error) {
	values, every, stepped := strings.Cut(written, "/")
	first, last, ranged := strings.Cut(values, "-")
	low, high, says := f.min, f.max, uint64(star)
	if first != "*" && first != "?" || ranged {
		says = 0
		if low, err = f.value(first); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if high, err = f.value(last); err != nil {
				return 0, err
			}
		case !stepped:
			high = low
		}
	}
	step := 1
	if stepped {
		if step, err = strconv.Atoi(every); err != nil || step < 1 {
			return 0, fmt.Errorf("the step %q must be a number from 1 on", every)
		}
	}
	if low > high {
		return 0, fmt.Errorf("the range begins at %d, behind its end at %d", low, high)
	}
	if step > 1 {
		says = 0
	}
	for v := low; v <= high; v += min(step, f.max+1) {
		allowed |= 1 << v
	}
	return allowed | says, nil
}

// value reads a number or a name.
func (f field) value(written string) (int, error) {
	if at := strings.Index(f.words, strings.ToLower(written)); len(written) == 3 && at >= 0 && at%3 == 0 {
		return f.min + at/3, nil
	}
	v, err := strconv.Atoi(written)
	if err != nil || v < f.min || v > f.max {
		return 0, fmt.Errorf("%q is no number from %d to %d", written, f.min, f.max)
	}
	return v, nil
}

// isOn says whether a day has slots. As in crontab(5), where both kinds of day are restricted one is enough.
func (f fields) isOn(day time.Time) bool {
	if f.month>>uint(day.Month())&1 == 0 {
		return false
	}
	ofMonth, ofWeek := f.dom>>uint(day.Day())&1 == 1, f.dow>>uint(day.Weekday())&1 == 1
	if (f.dom|f.dow)&star != 0 {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

// next is the first time on the wall after another; zero where there is none within some years.
func (f fields) next(after time.Time) time.Time {
	at := after.Truncate(time.Minute).Add(time.Minute)
	for until := after.Year() + searched; at.Year() <= until; {
		if f.month>>uint(at.Month())&1 == 0 {
			at = time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if f.isOn(at) {
			if minute, found := f.within(at.Hour(), at.Minute()); found {
				return time.Date(at.Year(), at.Month(), at.Day(), 0, minute, 0, 0, time.UTC)
			}
		}
		at = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// within is the first slot of a day from an hour and a minute on, in minutes.
func (f fields) within(hour, minute int) (int, bool) {
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
