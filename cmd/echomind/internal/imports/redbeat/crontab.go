package redbeat

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
)

// span is what a field of celery's crontab may hold.
type span struct {
	name     string
	min, max int
	days     bool // names of days may stand in it
}

var celery = []span{{"minute", 0, 59, false}, {"hour", 0, 23, false}, {"day_of_month", 1, 31, false}, {"month_of_year", 1, 12, false}, {"day_of_week", 0, 6, true}}

const dayOfMonth, dayOfWeek = 2, 4

// crontab writes the values that Celery allows as an expression of ours: its fields look like those of a crontab, and mean other things.
// A range may go round, and a day has to be allowed by both of its fields.
func (r *reader) crontab(row *imports.Row, object map[string]any) {
	var allowed [5]uint64
	for i, of := range celery {
		value, given := object[of.name]
		if !given || value == nil {
			value = "*"
		}
		var err error
		if allowed[i], err = of.values(value); err != nil {
			row.Refuse("its %s: %v", of.name, err)
			return
		}
	}
	written := make([]string, len(celery))
	for i, of := range celery {
		written[i] = of.write(allowed[i])
	}
	if written[dayOfMonth] != "*" && written[dayOfWeek] != "*" {
		weeks, whole := weeksOf(allowed[dayOfMonth])
		if !whole {
			row.Refuse("day_of_month and day_of_week are both restricted: Celery wants both, and here either is enough; only whole weeks such as 1-7 can be written")
			return
		}
		var days []string
		for day := range 7 {
			for _, week := range weeks {
				if allowed[dayOfWeek]>>day&1 == 1 {
					days = append(days, fmt.Sprintf("%d#%d", day, week))
				}
			}
		}
		written[dayOfMonth], written[dayOfWeek] = "*", strings.Join(days, ",")
	}
	row.SetCron(strings.Join(written, " "), r.Zone)
}

// weeksOf says which weeks of a month are allowed, where they are allowed as a whole.
func weeksOf(days uint64) (weeks []int, whole bool) {
	for week, first := 1, 1; first <= 31; week, first = week+1, first+7 {
		mask := uint64(0)
		for day := first; day <= min(first+6, 31); day++ {
			mask |= 1 << day
		}
		switch days & mask {
		case mask:
			weeks = append(weeks, week)
		case 0:
		default:
			return nil, false
		}
	}
	return weeks, true
}

// values reads a field as celery's crontab_parser does: a number, a text, or a list of numbers.
func (s span) values(value any) (allowed uint64, err error) {
	switch v := value.(type) {
	case json.Number:
		return s.number(v.String())
	case string:
		for _, part := range strings.Split(v, ",") {
			some, err := s.part(part)
			if err != nil {
				return 0, err
			}
			allowed |= some
		}
		return allowed, nil
	case []any:
		for _, one := range v {
			number, isNumber := one.(json.Number)
			if !isNumber {
				return 0, fmt.Errorf("a list has numbers, and this has %s", clip(fmt.Sprint(one)))
			}
			some, err := s.number(number.String())
			if err != nil {
				return 0, err
			}
			allowed |= some
		}
		if allowed == 0 {
			return 0, fmt.Errorf("an empty list never comes due")
		}
		return allowed, nil
	}
	return 0, fmt.Errorf("it must be a text, a number or a list of numbers")
}

func (s span) number(text string) (uint64, error) {
	n, err := s.one(text)
	if err != nil {
		return 0, err
	}
	return 1 << n, nil
}

// part reads *, */n, 5, 1-5, 1-5/2; of 22-4 those to the end and from the beginning.
func (s span) part(text string) (allowed uint64, err error) {
	values, step, stepped := strings.Cut(text, "/")
	every := 1
	if stepped {
		if every, err = strconv.Atoi(step); err != nil || every < 1 {
			return 0, fmt.Errorf("the step of %q must be a number from 1 on", clip(text))
		}
	}
	first, last, ranged := strings.Cut(values, "-")
	low, high := s.min, s.max
	switch {
	case values == "*":
	case ranged:
		if low, err = s.one(first); err == nil {
			high, err = s.one(last)
		}
	case stepped:
		return 0, fmt.Errorf("%q has a step and no range, which Celery does not take", clip(text))
	default:
		low, err = s.one(first)
		high = low
	}
	if err != nil {
		return 0, err
	}
	if high < low {
		high += s.max - s.min + 1
	}
	for v := low; v <= high; v += min(every, 60) {
		allowed |= 1 << ((v-s.min)%(s.max-s.min+1) + s.min)
	}
	return allowed, nil
}

var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

func (s span) one(text string) (int, error) {
	if n, err := strconv.Atoi(text); err == nil && n >= s.min && n <= s.max {
		return n, nil
	}
	if lower := strings.ToLower(text); s.days {
		for day, name := range weekdays {
			if lower == name || lower == name[:3] {
				return day, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no number from %d to %d", clip(text), s.min, s.max)
}

// write is a field of ours that allows the same values.
func (s span) write(allowed uint64) string {
	n := bits.OnesCount64(allowed)
	first, last := bits.TrailingZeros64(allowed), 63-bits.LeadingZeros64(allowed)
	if n == s.max-s.min+1 {
		return "*"
	}
	if step, is := progression(allowed, first, last, n); is && n > 2 && step > 1 {
		if first == s.min && last+step > s.max {
			return fmt.Sprintf("*/%d", step)
		}
		return fmt.Sprintf("%d-%d/%d", first, last, step)
	}
	var parts []string
	for v := first; v <= last; v++ {
		if allowed>>v&1 == 0 {
			continue
		}
		end := v
		for allowed>>(end+1)&1 == 1 {
			end++
		}
		if end > v+1 {
			parts = append(parts, fmt.Sprintf("%d-%d", v, end))
			v = end
		} else {
			parts = append(parts, strconv.Itoa(v))
		}
	}
	return strings.Join(parts, ",")
}

// progression is the step between values that are equally far apart.
func progression(allowed uint64, first, last, n int) (step int, is bool) {
	if n < 2 || (last-first)%(n-1) != 0 {
		return 0, false
	}
	step = (last - first) / (n - 1)
	for v := first; v <= last; v += step {
		if allowed>>v&1 == 0 {
			return 0, false
		}
	}
	return step, true
}
