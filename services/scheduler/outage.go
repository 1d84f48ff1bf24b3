package scheduler

import (
	"sync"
	"time"

	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// afterAnOutage is how long something must have been due before this scheduler began to look to be work that an outage has left.
const afterAnOutage = time.Minute

// outage knows since when this scheduler looks, by Postgres's clock: since it leads, or Postgres is back.
type outage struct {
	mu   sync.Mutex
	back time.Time
}

// forget is for when it does not look any more: an outage may have begun.
func (o *outage) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.back = time.Time{}
}

// since is when the first look was that has found something.
func (o *outage) since(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.back.IsZero() {
		o.back = now
	}
	return o.back
}

// later is when a connector is claimed whose slot an outage has left behind; zero = now. Each has its place in the window, by its id. What
// would be too late then, or has been put off before, is claimed now.
func later(r dbgen.LockDueRow, back time.Time, window time.Duration) time.Time {
	if window == 0 || r.SlotAt == nil || r.DueReason != "schedule" || !r.NextSyncAt.Equal(*r.SlotAt) ||
		!r.NextSyncAt.Before(back.Add(-afterAnOutage)) {
		return time.Time{}
	}
	at := back.Add(time.Duration(slots.Share(r.ID) * float64(window)))
	if !at.After(r.Now) || r.DeadlineMinutes != nil && at.After(r.SlotAt.Add(time.Duration(*r.DeadlineMinutes)*time.Minute)) {
		return time.Time{}
	}
	return at
}
