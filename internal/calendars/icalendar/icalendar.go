// Package icalendar reads the events of an iCalendar file (RFC 5545) as entries of a calendar.
package icalendar

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	ics "github.com/arran4/golang-ical"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/timezone"
)

// MaxBytes is how long a file may be.
const MaxBytes = 4 << 20

// maxTimes is how many further times, and how many exceptions, an event may have: as many as an entry of a calendar.
const maxTimes = 1000

// File is what was read of a file.
type File struct {
	// TimeZone is the one that the file names; empty where it names none.
	TimeZone string
	Entries  []calendars.Entry
	// Left says what was left out, and why.
	Left []string
}

// Read reads a file. What repeats in a way that a calendar does not know is an error, which names the event.
func Read(from io.Reader) (f File, err error) {
	file, err := io.ReadAll(io.LimitReader(from, MaxBytes+1))
	if err != nil {
		return f, err
	}
	if len(file) > MaxBytes {
		return f, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	if err := check(file); err != nil {
		return f, fmt.Errorf("it is no iCalendar file: %w", err)
	}
	parsed, err := ics.ParseCalendar(bytes.NewReader(file))
	if err != nil {
		return f, fmt.Errorf("it is no iCalendar file: %s", clean(err.Error()))
	}
	for _, p := range parsed.CalendarProperties {
		if p.IANAToken == "X-WR-TIMEZONE" {
			f.TimeZone = p.Value
		}
	}
	moved := map[string][]*ics.IANAProperty{} // by the UID: the days of occurrences that have an event of their own
	masters := map[string]int{}
	for _, v := range parsed.Events() {
		e := eventOf(v)
		entry, problem := e.entry()
		if problem == "" && entry == nil {
			err = e.err
		}
		if err != nil {
			return f, fmt.Errorf("event %s: %w", e.named(), err)
		}
		if at := e.first("RECURRENCE-ID"); at != nil {
			if slices.Contains(at.ICalParameters["RANGE"], "THISANDFUTURE") {
				return f, fmt.Errorf("event %s: RECURRENCE-ID with RANGE=THISANDFUTURE is not read", e.named())
			}
			moved[e.uid] = append(moved[e.uid], at)
		}
		if problem != "" {
			f.Left = append(f.Left, e.named()+": "+problem)
			continue
		}
		if e.first("RECURRENCE-ID") == nil && e.uid != "" {
			masters[e.uid] = len(f.Entries)
		}
		f.Entries = append(f.Entries, *entry)
	}
	for uid, all := range moved {
		i, is := masters[uid]
		if !is {
			continue
		}
		for _, p := range all {
			at, err := readTime(p.Value, p.ICalParameters, f.Entries[i].TimeZone)
			if err == nil {
				err = at.floats(f.Entries[i].TimeZone)
			}
			if err != nil {
				return f, fmt.Errorf("event %s: RECURRENCE-ID %w", f.Entries[i].Name, err)
			}
			f.Entries[i].Not = append(f.Entries[i].Not, at.local(f.Entries[i].TimeZone))
		}
		slices.Sort(f.Entries[i].Not)
	}
	return f, nil
}

// event is an event with its properties by their names.
type event struct {
	uid, name  string
	properties map[string][]ics.IANAProperty
	err        error
}

func eventOf(v *ics.VEvent) *event {
	e := &event{uid: v.Id(), properties: map[string][]ics.IANAProperty{}}
	for _, p := range v.Properties {
		e.properties[p.IANAToken] = append(e.properties[p.IANAToken], p)
	}
	if p := e.first("SUMMARY"); p != nil {
		e.name = clean(ics.FromText(p.Value))
	}
	return e
}

// clean is a name as calendars take it.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 100 {
		text = string(runes[:99]) + "…"
	}
	return text
}

func (e *event) named() string {
	if e.name == "" {
		return strconv.Quote(clean(e.uid))
	}
	return strconv.Quote(e.name)
}

func (e *event) first(name string) *ics.IANAProperty {
	if all := e.properties[name]; len(all) > 0 {
		return &all[0]
	}
	return nil
}

// entry is the event as a calendar has it; or why it is left out. Both are empty where it cannot be read, and err says why.
func (e *event) entry() (*calendars.Entry, string) {
	fail := func(format string, args ...any) (*calendars.Entry, string) {
		e.err = fmt.Errorf(format, args...)
		return nil, ""
	}
	if p := e.first("STATUS"); p != nil && strings.EqualFold(p.Value, "CANCELLED") {
		return nil, "it is cancelled"
	}
	p := e.first("DTSTART")
	if p == nil {
		return nil, "it has no DTSTART"
	}
	start, err := readTime(p.Value, p.ICalParameters, "")
	if err != nil {
		return fail("DTSTART %w", err)
	}
	entry := &calendars.Entry{Name: cmp.Or(e.name, "without a name"), Start: start.local(start.zone), TimeZone: start.zone}
	switch end, err := e.end(start); {
	case err != nil:
		return fail("%w", err)
	case !end.wall.After(start.wall):
		return nil, "it has no length"
	case !start.isDay || !end.wall.Equal(start.wall.AddDate(0, 0, 1)):
		entry.End = end.local(start.zone)
	}
	switch rules := e.properties["RRULE"]; {
	case len(rules) > 1 || len(e.properties["EXRULE"]) > 0:
		return fail("more than one RRULE, and EXRULE, are not read")
	case len(rules) == 1:
		entry.Rule = rules[0].Value
	}
	if entry.Not, err = e.times("EXDATE", start.zone); err == nil {
		entry.Also, err = e.times("RDATE", start.zone)
	}
	if err != nil {
		return fail("%w", err)
	}
	return entry, ""
}

// end is when the event is over, in the zone of its start.
func (e *event) end(start clock) (clock, error) {
	end := start
	if p := e.first("DTEND"); p != nil {
		at, err := readTime(p.Value, p.ICalParameters, start.zone)
		if err == nil {
			err = at.floats(start.zone)
		}
		if err != nil {
			return end, fmt.Errorf("DTEND %w", err)
		}
		return at.in(start.zone), nil
	}
	if p := e.first("DURATION"); p != nil {
		m := duration.FindStringSubmatch(p.Value)
		if m == nil {
			return end, fmt.Errorf("DURATION %q is none such as P1D or PT12H", clean(p.Value))
		}
		n := func(i int) int { k, _ := strconv.Atoi(m[i]); return k }
		end.wall = end.wall.AddDate(0, 0, 7*n(1)+n(2)).Add(time.Duration(n(3))*time.Hour + time.Duration(n(4))*time.Minute + time.Duration(n(5))*time.Second)
		end.isDay = end.isDay && m[3]+m[4]+m[5] == ""
		return end, nil
	}
	if start.isDay {
		end.wall = end.wall.AddDate(0, 0, 1)
	}
	return end, nil
}

var duration = regexp.MustCompile(`^\+?P(?:(\d{1,3})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?$`)

// times are those of all properties of a name.
func (e *event) times(name, zone string) (all []string, err error) {
	for _, p := range e.properties[name] {
		if slices.Contains(p.ICalParameters["VALUE"], "PERIOD") {
			return nil, fmt.Errorf("%s with periods is not read", name)
		}
		for value := range strings.SplitSeq(p.Value, ",") {
			at, err := readTime(value, p.ICalParameters, zone)
			if err == nil {
				err = at.floats(zone)
			}
			if err != nil {
				return nil, fmt.Errorf("%s %w", name, err)
			}
			if all = append(all, at.local(zone)); len(all) > maxTimes {
				return nil, fmt.Errorf("%s has more than %d times", name, maxTimes)
			}
		}
	}
	return all, nil
}

// clock is a time as clocks show it, in a zone; empty = the calendar's.
type clock struct {
	wall  time.Time // in UTC, whatever the zone
	zone  string
	isDay bool
}

// readTime reads a DATE or DATE-TIME; the zone is what its parameters say, else the one that is given.
func readTime(value string, parameters map[string][]string, zone string) (c clock, err error) {
	if all := parameters["TZID"]; len(all) > 0 {
		zone = strings.Trim(all[0], `"`)
		if _, err := timezone.Load(zone); err != nil {
			return c, fmt.Errorf("names the time zone %q, which is no IANA name such as Europe/Berlin", clean(zone))
		}
	}
	for _, layout := range []string{"20060102", "20060102T150405", "20060102T150405Z"} {
		if c.wall, err = time.Parse(layout, strings.TrimSpace(value)); err == nil {
			c.isDay = layout == "20060102"
			if c.zone = zone; strings.HasSuffix(layout, "Z") {
				c.zone = "UTC"
			}
			if c.isDay {
				c.zone = ""
			}
			return c, nil
		}
	}
	return c, fmt.Errorf("%q is no time such as 20261224 or 20261224T120000", clean(value))
}

// floats refuses a time with a zone of an event whose start has none: which day it is there, nobody knows.
func (c clock) floats(zone string) error {
	if zone == "" && c.zone != "" {
		return fmt.Errorf("is in %s, and DTSTART in no zone: write both with a TZID, or in UTC", c.zone)
	}
	return nil
}

// in is the same moment in another zone; days, and times of the calendar's zone, stay what they are.
func (c clock) in(zone string) clock {
	if c.isDay || c.zone == zone || c.zone == "" || zone == "" {
		return c
	}
	from, err := timezone.Load(c.zone)
	to, problem := timezone.Load(zone)
	if err != nil || problem != nil {
		return c
	}
	w := c.wall
	at := time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), 0, from).In(to)
	return clock{wall: time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC), zone: zone}
}

// local is how a calendar writes it.
func (c clock) local(zone string) string {
	c = c.in(zone)
	switch {
	case c.isDay:
		return c.wall.Format(time.DateOnly)
	case c.wall.Second() == 0:
		return c.wall.Format("2006-01-02T15:04")
	}
	return c.wall.Format("2006-01-02T15:04:05")
}
