package slots

import (
	"time"

	"github.com/echomind/sync/internal/calendars"
)

const (
	// InBlackout begins the reason of slots that a blackout window skips; its name follows, and until when it stands.
	InBlackout = "blackout `"
	// lookAgain is in how many months a connector is looked at again that a window without an end holds.
	lookAgain = 1
)

// Blackout is a window in which no run of a connector is claimed.
type Blackout struct {
	Name    string
	Version int64
	// Skip: slots within it are skipped; else they wait for its end. What answers no slot waits in any case.
	Skip bool
	// Spread is the time behind its end in which those that have waited are claimed, each at its own place.
	Spread time.Duration
	// Zone is where its end is told.
	Zone  *time.Location
	Times *calendars.Calendar
}

// Held is a connector that waits for the end of a window.
type Held struct {
	Blackout *Blackout
	// End is when the window ends; zero where it does not within years.
	End time.Time
	// Until is when the connector is looked at again.
	Until time.Time
}

// Says names the window and its end.
func (h Held) Says() string {
	if h.End.IsZero() {
		return InBlackout + h.Blackout.Name + "` without an end"
	}
	return InBlackout + h.Blackout.Name + "` until " + h.End.In(h.Blackout.Zone).Format("2006-01-02T15:04Z07:00")
}

// Under is the schedule of a connector with the windows that may hold it.
func (s Schedule) Under(id int32, all []Blackout) Schedule {
	s.id, s.blackouts = id, all
	return s
}

// Hold says which window holds a connector at a moment. Of several windows it is the one with the latest end; where ends are equal, the first by name. Its place lies in the first half of the
// time until one of them begins again; for a slot that is too old behind latest, of the time until then. Zero = at any age.
func Hold(all []Blackout, id int32, at, latest time.Time) (h Held, is bool) {
	for i := range all {
		if on, _, _ := all[i].Times.At(at); !on {
			continue
		}
		if end, _ := all[i].Times.Begins(at, false); !is || !h.End.IsZero() && (end.IsZero() || end.After(h.End)) {
			h, is = Held{Blackout: &all[i], End: end}, true
		}
	}
	switch {
	case !is:
		return h, false
	case h.End.IsZero():
		h.Until = at.AddDate(0, lookAgain, 0)
		return h, true
	}
	room := h.Blackout.Spread
	if latest.After(h.End) {
		room = min(room, latest.Sub(h.End)/2)
	}
	for i := range all {
		if begin, _ := all[i].Times.Begins(h.End, true); begin.After(h.End) {
			room = min(room, begin.Sub(h.End)/2)
		}
	}
	h.Until = h.End.Add(time.Duration(Share(id) * float64(room)).Truncate(time.Microsecond))
	return h, true
}

// skipping are the windows of these that skip slots.
func skipping(all []Blackout) (some []Blackout) {
	for _, b := range all {
		if b.Skip {
			some = append(some, b)
		}
	}
	return some
}

// Held says whether a slot that would be claimed at a moment waits for the end of a window.
func (s Schedule) Held(slot, at time.Time) (Held, bool) {
	latest := time.Time{}
	if oldest := s.policies.Oldest(); oldest > 0 {
		latest = slot.Add(oldest)
	}
	return Hold(s.blackouts, s.id, at, latest)
}

// SkippedBy is the window that skips a slot. Until is when the next slot of an interval comes behind it.
func (s Schedule) SkippedBy(slot time.Time) (Held, bool) {
	if len(s.blackouts) == 0 {
		return Held{}, false
	}
	return Hold(skipping(s.blackouts), s.id, slot, time.Time{})
}
