package scheduler

import (
	"sync"
	"time"

	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// afterAnOutage is for how long work must have been due, when this scheduler began to look, to count as left by an outage.
const afterAnOutage = time.Minute

// outage knows since when this scheduler looks, by Postgres's clock: since it leads, or Postgres is back.
type outage struct {
	mu   sync.Mutex
	back time.Time
}

// forget is called when the scheduler looks no more: an outage may have begun.
func (o *outage) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.back = time.Time{}
}

// known says whether it looks since some time.
func (o *outage) known() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.back.IsZero()
}

// since is when the first look was.
func (o *outage) since(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.back.IsZero() || now.Before(o.back) { // the clock may have stepped back
		o.back = now
	}
	return o.back
}

// later is when to claim a connector if an outage has left its slots behind and one of them would run now; zero = now. Each connector has
// its place in the window, by its id, and before its own next slot. A connector is claimed now if its slot would be too late or too old
// then, was put off before, or is wanted all the same; so is one that runs after others, for which it may have waited.
func later(r dbgen.LockDueRow, s slot, back time.Time, window time.Duration) time.Time {
	if window == 0 || r.Follows || s.At == nil || r.SlotAt == nil || r.DueReason != "schedule" || r.Wanted != "" || !r.NextSyncAt.Equal(*r.SlotAt) ||
		!r.NextSyncAt.Before(back.Add(-afterAnOutage)) {
		return time.Time{}
	}
	if s.next != nil {
		if next := s.next(); !next.IsZero() {
			window = min(window, next.Sub(back))
		}
	}
	at := back.Add(time.Duration(slots.Share(r.ID) * float64(window)))
	oldest := columnsOfDue(r).Policies().Oldest()
	if !at.After(r.Now) || oldest > 0 && at.After(s.At.Add(oldest)) {
		return time.Time{}
	}
	return at
}
