package calendars

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rule is the part of RFC 5545's recurrence rules that days can be told by: an occurrence a day at most, at the time of its entry's start.
type rule struct {
	frequency string
	interval  int
	count     int
	until     *stamp
	// utcUntil is where UNTIL is a moment.
	utcUntil  time.Time
	months    []int
	monthDays []int
	weekDays  []weekDay
	positions []int
	weekStart int
	start     day
	last      day // the last occurrence of a rule that has a COUNT
}

// weekDay is a day of the week; the nth of its month or year, from the end where n is negative, all where it is 0.
type weekDay struct{ n, day int }

var weekDayNames = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// farthest bounds how many days a rule's COUNT is followed.
const farthest = 200 * 366

func readRule(text string, start day) (r *rule, err error) {
	r = &rule{interval: 1, weekStart: 1, start: start, last: maxDay}
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.ToUpper(text), "RRULE:"), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "FREQ":
			r.frequency = value
		case "INTERVAL":
			r.interval, err = number(value, 1, 10000)
		case "COUNT":
			r.count, err = number(value, 1, 100000)
		case "UNTIL":
			err = r.readUntil(value)
		case "BYMONTH":
			r.months, err = numbers(value, 1, 12)
		case "BYMONTHDAY":
			r.monthDays, err = numbers(value, -31, 31)
		case "BYSETPOS":
			r.positions, err = numbers(value, -366, 366)
		case "BYDAY":
			r.weekDays, err = readWeekDays(value)
		case "WKST":
			if r.weekStart = slices.Index(weekDayNames, value); r.weekStart < 0 {
				err = fmt.Errorf("is no day of the week")
			}
		default:
			err = fmt.Errorf("is not read here; FREQ, INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY, BYDAY, BYSETPOS and WKST are")
		}
		if err != nil {
			return nil, fmt.Errorf("rule %s: %s %w", clip(text), clip(part), err)
		}
	}
	if err := r.complete(); err != nil {
		return nil, fmt.Errorf("rule %s: %w", clip(text), err)
	}
	return r, nil
}

func (r *rule) readUntil(value string) error {
	for layout, isUTC := range map[string]bool{"20060102": false, "20060102T150405": false, "20060102T150405Z": true} {
		if at, err := time.Parse(layout, value); err == nil {
			if isUTC {
				r.utcUntil = at
				return nil
			}
			s := stampOf(at)
			if layout == "20060102" {
				s.second = 86399
			}
			r.until = &s
			return nil
		}
	}
	return fmt.Errorf("is no time such as 20261231 or 20261231T225959Z")
}

// complete adds what the start says where the rule says nothing.
func (r *rule) complete() error {
	_, month, dayOfMonth := r.start.date()
	ordinal := slices.ContainsFunc(r.weekDays, func(w weekDay) bool { return w.n != 0 })
	switch r.frequency {
	case "DAILY", "WEEKLY":
		if ordinal {
			return fmt.Errorf("BYDAY with a number goes with FREQ=MONTHLY or YEARLY")
		}
		if r.frequency == "WEEKLY" && len(r.weekDays) == 0 {
			r.weekDays = []weekDay{{day: r.start.weekday()}}
		}
	case "MONTHLY", "YEARLY":
		if len(r.weekDays) == 0 && len(r.monthDays) == 0 {
			r.monthDays = []int{dayOfMonth}
			if r.frequency == "YEARLY" && len(r.months) == 0 {
				r.months = []int{int(month)}
			}
		}
	default:
		return fmt.Errorf("FREQ must be DAILY, WEEKLY, MONTHLY or YEARLY")
	}
	if slices.Contains(r.monthDays, 0) || slices.Contains(r.positions, 0) {
		return fmt.Errorf("there is no day 0")
	}
	return nil
}

// budget is how much the rules of a calendar may still do: days that are looked at, times that they begin in a year, months and days that they list.
type budget struct{ steps, begins, listed int }

// spend says what is too much of the rule, and looks where its COUNT ends.
func (r *rule) spend(left *budget) error {
	if left.listed -= r.listed(); left.listed < 0 {
		return fmt.Errorf("with it the rules of this calendar list more than %d months and days", MaxListed)
	}
	if left.begins -= r.perYear(); left.begins < 0 {
		return fmt.Errorf("with it the rules of this calendar begin more than %d times a year: write fewer, or longer ones", MaxBegins)
	}
	return r.follow(&left.steps)
}

// follow looks where COUNT ends; steps is how many days may still be looked at.
func (r *rule) follow(steps *int) error {
	if r.count == 0 {
		return nil
	}
	left := r.count
	for d := range r.days(r.start, r.start+farthest) {
		if left--; left == 0 {
			*steps -= int(d-r.start) * (1 + r.listed())
			r.last = d
			break
		}
	}
	if left > 0 {
		*steps -= farthest * (1 + r.listed())
	}
	if *steps < 0 {
		return fmt.Errorf("rules with COUNT that begin long ago take too long to follow: write UNTIL instead")
	}
	return nil
}

// listed is how many months and days it lists: each day is compared with as many.
func (r *rule) listed() int {
	return len(r.months) + len(r.monthDays) + len(r.weekDays) + len(r.positions)
}

// perYear is how often at most it begins in a year.
func (r *rule) perYear() int {
	const weeks = 53
	months := 12
	if n := len(r.months); n > 0 {
		months = min(months, n)
	}
	most := months * 31
	switch r.frequency {
	case "DAILY":
		most = min(most, 366/r.interval+1)
	case "WEEKLY":
		most = min(most, (weeks/r.interval+1)*min(7, len(r.weekDays)))
	case "MONTHLY":
		most = min(most, (months/r.interval+1)*31)
	}
	if n := len(r.monthDays); n > 0 {
		most = min(most, n*months)
	}
	if len(r.weekDays) > 0 && r.frequency != "WEEKLY" {
		n := 0
		for _, w := range r.weekDays {
			if w.n == 0 {
				n += weeks
			} else {
				n += months
			}
		}
		most = min(most, n)
	}
	if n := len(r.positions); n > 0 {
		most = min(most, n*map[string]int{"DAILY": 366, "WEEKLY": weeks + 1, "MONTHLY": months, "YEARLY": 1}[r.frequency])
	}
	return min(most, 366)
}

// days are those from a day through another on which it begins, whatever UNTIL says.
func (r *rule) days(from, through day) func(yield func(day) bool) {
	return func(yield func(day) bool) {
		var begin, end day // of the period whose days are chosen by their position
		var chosen []day
		for d := max(from, r.start); d <= min(through, r.last); d++ {
			if !r.fits(d) {
				continue
			}
			if len(r.positions) > 0 {
				if d < begin || d >= end {
					begin, end = r.period(d)
					chosen = r.choose(begin, end)
				}
				if !slices.Contains(chosen, d) {
					continue
				}
			}
			if !yield(d) {
				return
			}
		}
	}
}

// choose are the days of a period that BYSETPOS names.
func (r *rule) choose(begin, end day) (chosen []day) {
	var all []day
	for d := begin; d < end; d++ {
		if r.fits(d) {
			all = append(all, d)
		}
	}
	for _, n := range r.positions {
		if n > 0 {
			n--
		} else {
			n += len(all)
		}
		if n >= 0 && n < len(all) {
			chosen = append(chosen, all[n])
		}
	}
	return chosen
}

// period is what a day is counted in: from its first day to before its last.
func (r *rule) period(d day) (begin, end day) {
	year, month, _ := d.date()
	switch r.frequency {
	case "WEEKLY":
		begin = d - day((d.weekday()-r.weekStart+7)%7)
		return begin, begin + 7
	case "MONTHLY":
		return dayOf(year, month, 1), dayOf(year, month+1, 1)
	case "YEARLY":
		return dayOf(year, 1, 1), dayOf(year+1, 1, 1)
	}
	return d, d + 1
}

// fits says whether a day is one of the rule, wherever it begins, and whatever its position.
func (r *rule) fits(d day) bool {
	year, month, dayOfMonth := d.date()
	if len(r.months) > 0 && !slices.Contains(r.months, int(month)) {
		return false
	}
	switch startYear, startMonth, _ := r.start.date(); r.frequency {
	case "DAILY":
		if int(d-r.start)%r.interval != 0 {
			return false
		}
	case "WEEKLY":
		if (d.week(r.weekStart)-r.start.week(r.weekStart))%r.interval != 0 {
			return false
		}
	case "MONTHLY":
		if ((year-startYear)*12+int(month)-int(startMonth))%r.interval != 0 {
			return false
		}
	case "YEARLY":
		if (year-startYear)%r.interval != 0 {
			return false
		}
	}
	if len(r.monthDays) > 0 {
		days := int(dayOf(year, month+1, 1) - dayOf(year, month, 1))
		if !slices.ContainsFunc(r.monthDays, func(n int) bool { return n == dayOfMonth || n == dayOfMonth-days-1 }) {
			return false
		}
	}
	return len(r.weekDays) == 0 || slices.ContainsFunc(r.weekDays, func(w weekDay) bool { return r.isWeekDay(w, d) })
}

func (r *rule) isWeekDay(w weekDay, d day) bool {
	if w.day != d.weekday() {
		return false
	}
	if w.n == 0 {
		return true
	}
	year, month, _ := d.date()
	begin, end := dayOf(year, 1, 1), dayOf(year+1, 1, 1)
	if r.frequency == "MONTHLY" || len(r.months) > 0 {
		begin, end = dayOf(year, month, 1), dayOf(year, month+1, 1)
	}
	return w.n == int(d-begin)/7+1 || w.n == -int(end-1-d)/7-1
}

func readWeekDays(value string) (all []weekDay, err error) {
	for one := range strings.SplitSeq(value, ",") {
		k := max(0, len(one)-2)
		w := weekDay{day: slices.Index(weekDayNames, one[k:])}
		if w.day < 0 {
			return nil, fmt.Errorf("is no day of the week such as MO or -1FR")
		}
		if k > 0 {
			if w.n, err = number(one[:k], -53, 53); err != nil || w.n == 0 {
				return nil, fmt.Errorf("is no day of the week such as MO or -1FR")
			}
		}
		all = append(all, w)
	}
	return all, nil
}

func number(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("is no number from %d to %d", least, most)
	}
	return n, nil
}

func numbers(text string, least, most int) (all []int, err error) {
	for one := range strings.SplitSeq(text, ",") {
		n, err := number(one, least, most)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	if len(all) > 400 {
		return nil, fmt.Errorf("has more than 400 numbers")
	}
	return all, nil
}
