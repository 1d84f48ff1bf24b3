// Package calendars says which times a calendar has: days, and spans of them, that are written down one by one or by a rule.
// docs/calendars.md says what may be written. Whatever is, working it out is bounded: a rule has an occurrence a day at most, and no
// calendar more than MaxEntries entries.
package calendars

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/echomind/sync/internal/timezone"
)

// ErrCalendar says that a calendar cannot be read.
var ErrCalendar = errors.New("bad calendar")

const (
	// MaxEntries is how many entries a calendar may have.
	MaxEntries = 1000
	// MaxRules is how many of them may have a rule.
	MaxRules = 100
	// MaxBytes is how long they may be together, in JSON as Postgres writes it.
	MaxBytes = 65536

	// MaxBegins is how often in a year the entries with a rule may begin, all of them together.
	MaxBegins = 1500
	// MaxListed is how many months and days their rules may list, all of them together.
	MaxListed = 2000

	maxName    = 100
	maxDays    = 366       // of one occurrence
	maxDates   = 1000      // further ones, and exceptions, of one entry
	mostSteps  = 1_000_000 // days, times what the rule lists
	mostKept   = 40_000    // stretches of the years that are kept worked out, 1 MB
	mostAhead  = 12        // years in which a time is looked for
	mostPassed = 5000      // stretches that are passed for it
	mostBehind = 30
)

// Entry is one line of a calendar, as it is stored.
type Entry struct {
	Name string `json:"name"`
	// Start and End are days, 2026-12-24, or times of the clock, 2026-12-24T12:00. The End is the first day or moment that is not of
	// it any more; without one it is a day.
	Start string `json:"start"`
	End   string `json:"end,omitempty"`
	// TimeZone is an IANA name; the calendar's where there is none.
	TimeZone string `json:"time_zone,omitempty"`
	// Rule repeats it: a recurrence rule of RFC 5545.
	Rule string `json:"rule,omitempty"`
	// Also are the starts of further ones; Not are days on which it does not begin.
	Also []string `json:"also,omitempty"`
	Not  []string `json:"not,omitempty"`
	// Except says that its time is not of the calendar, whatever other entries say.
	Except bool `json:"except,omitempty"`
}

// Calendar is a calendar that can be asked.
type Calendar struct {
	entries []entry
	names   []string // what the entries are called, each once; none is the first

	mu    sync.Mutex
	years map[int][]stretch
	kept  int // stretches in years
	// whole are the years that the calendar closes, or opens, from end to end. They are kept for longer than the stretches in years.
	whole map[int]whole
}

// entry is an Entry that was read.
type entry struct {
	name   int32 // of the calendar's
	zone   *time.Location
	start  stamp
	days   int // from the day of the start to that of the end
	end    int // second of that day
	rule   *rule
	also   []stamp
	not    map[day]bool
	except bool
}

// Read reads a calendar's time zone and entries, a JSON array. It returns ErrCalendar, naming the entry and what is wrong with it.
func Read(timeZone string, entries []byte) (*Calendar, error) {
	if len(entries) > 4*MaxBytes { // Postgres, which writes it another way, bounds it
		return nil, fmt.Errorf("%w: its entries have %d bytes; at most %d may be", ErrCalendar, len(entries), MaxBytes)
	}
	var all []Entry
	if err := json.Unmarshal(entries, &all); err != nil {
		return nil, fmt.Errorf("%w: its entries are no list of entries: %w", ErrCalendar, err)
	}
	return Of(timeZone, all)
}

// Of is Read of entries.
func Of(timeZone string, all []Entry) (*Calendar, error) {
	zone, err := location(timeZone)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCalendar, err)
	}
	if len(all) > MaxEntries {
		return nil, fmt.Errorf("%w: it has %d entries; at most %d may be", ErrCalendar, len(all), MaxEntries)
	}
	c := &Calendar{entries: make([]entry, len(all)), names: []string{""}, years: map[int][]stretch{}, whole: map[int]whole{}}
	for _, e := range all {
		c.names = append(c.names, e.Name)
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	left, rules := budget{mostSteps, MaxBegins, MaxListed}, 0
	for i, e := range all {
		c.entries[i], err = readEntry(e, zone)
		name, _ := slices.BinarySearch(c.names, e.Name)
		c.entries[i].name = int32(name)
		if err == nil && c.entries[i].rule != nil {
			rules++
			err = c.entries[i].rule.spend(&left)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d (%s): %w", ErrCalendar, i+1, clip(e.Name), err)
		}
	}
	if rules > MaxRules {
		return nil, fmt.Errorf("%w: it has %d entries with a rule; at most %d may be", ErrCalendar, rules, MaxRules)
	}
	return c, nil
}

func location(name string) (*time.Location, error) {
	if zone, err := timezone.Load(name); err == nil {
		return zone, nil
	}
	return nil, fmt.Errorf("time_zone %q: write an IANA name such as Europe/Berlin", clip(name))
}

func readEntry(e Entry, zone *time.Location) (r entry, err error) {
	if n := utf8.RuneCountInString(e.Name); n < 1 || n > maxName {
		return r, fmt.Errorf("name has %d characters; write 1 to %d", n, maxName)
	}
	r = entry{zone: zone, except: e.Except, not: map[day]bool{}}
	if e.TimeZone != "" {
		if r.zone, err = location(e.TimeZone); err != nil {
			return r, err
		}
	}
	var isDay bool
	if r.start, isDay, err = readStamp(e.Start); err != nil {
		return r, fmt.Errorf("start %w", err)
	}
	end := stamp{r.start.day + 1, 0}
	switch {
	case e.End != "":
		if end, _, err = readStamp(e.End); err != nil {
			return r, fmt.Errorf("end %w", err)
		}
	case !isDay:
		return r, fmt.Errorf("has a time at its start, and no end")
	}
	r.days, r.end = int(end.day-r.start.day), end.second
	if r.days < 0 || r.days == 0 && r.end <= r.start.second || r.days > maxDays {
		return r, fmt.Errorf("end %s: must be behind its start, and at most %d days", e.End, maxDays)
	}
	if len(e.Also) > maxDates || len(e.Not) > maxDates {
		return r, fmt.Errorf("has %d further dates and %d exceptions; at most %d may be", len(e.Also), len(e.Not), maxDates)
	}
	for _, text := range e.Also {
		at, isDay, err := readStamp(text)
		if err != nil {
			return r, fmt.Errorf("also %w", err)
		}
		if isDay {
			at.second = r.start.second
		}
		r.also = append(r.also, at)
	}
	for _, text := range e.Not {
		at, _, err := readStamp(text)
		if err != nil {
			return r, fmt.Errorf("not %w", err)
		}
		r.not[at.day] = true
	}
	if e.Rule != "" {
		r.rule, err = readRule(e.Rule, r.start.day)
	}
	return r, err
}

// Names are what the entries are called, each once, in the order of the alphabet.
func (c *Calendar) Names() []string { return c.names[1:] }
