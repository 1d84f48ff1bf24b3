// Package blackouts knows which blackout windows hold a connector: the scheduler, `schedule preview` and `why` ask it, so that they
// cannot differ. internal/slots decides what a window does.
package blackouts

import (
	"fmt"
	"slices"
	"time"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/slots"
)

// Most is how many windows there may be, as the table bounds it.
const Most = 100

// Modes of a window.
const (
	Skip  = "skip"
	Defer = "defer"
)

// Window is whom a window holds, as view blackout_windows has it.
type Window struct {
	Name, Mode    string
	SpreadMinutes int32
	UserID        *int32   // nil = of any owner
	Types         []string // nil = of any type
	Except        []int32  // connectors
	Version       int64
}

// Who is a connector, as far as windows ask.
type Who struct {
	ID     int32
	UserID int32 // 0 = the system
	Type   string
}

// Holds says whether a window holds a connector while it stands. A job of the system is held where its type is named.
func (w Window) Holds(c Who) bool {
	switch {
	case slices.Contains(w.Except, c.ID), w.UserID != nil && *w.UserID != c.UserID, c.UserID == 0 && w.Types == nil:
		return false
	}
	return w.Types == nil || slices.Contains(w.Types, c.Type)
}

// At is the window with its times.
func (w Window) At(zone string, times *calendars.Calendar) slots.Blackout {
	in, err := time.LoadLocation(zone)
	if err != nil {
		in = time.UTC // times were read in it, so that it is known
	}
	return slots.Blackout{
		Name: w.Name, Version: w.Version, Skip: w.Mode == Skip, Spread: time.Duration(w.SpreadMinutes) * time.Minute, Zone: in, Times: times,
	}
}

// Row is a window with its times, as the queries BlackoutWindows have it.
type Row struct {
	Name             string
	Mode             string
	SpreadMinutes    int32
	UserID           *int32
	Types            []string
	ExceptConnectors []int32
	Version          int64
	TimeZone         string
	Entries          []byte
}

// Of are the windows of these that may hold a connector. problems are those whose calendar cannot be read: they hold nobody.
func Of(all []Row, c Who) (some []slots.Blackout, problems []error) {
	for _, r := range all {
		w := Window{r.Name, r.Mode, r.SpreadMinutes, r.UserID, r.Types, r.ExceptConnectors, r.Version}
		if !w.Holds(c) {
			continue
		}
		times, err := calendars.Read(r.TimeZone, r.Entries)
		if err != nil {
			problems = append(problems, fmt.Errorf("blackout `%s` holds nobody, because its calendar cannot be read: %w", r.Name, err))
			continue
		}
		some = append(some, w.At(r.TimeZone, times))
	}
	return some, problems
}

// HoldsAt says whether a window holds its connectors at a moment, and until when; nil: it does not end within years. The error is of a
// calendar that cannot be read: it holds nobody then.
func (r Row) HoldsAt(now time.Time) (stands bool, until *time.Time, err error) {
	times, err := calendars.Read(r.TimeZone, r.Entries)
	if err != nil {
		return false, nil, err
	}
	h, stands := slots.Hold([]slots.Blackout{Window{Name: r.Name, Mode: r.Mode}.At(r.TimeZone, times)}, 1, now, time.Time{})
	if stands && !h.End.IsZero() {
		until = &h.End
	}
	return stands, until, nil
}
