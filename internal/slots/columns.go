package slots

import (
	"time"

	"github.com/echomind/sync/internal/cron"
)

// Columns are what a connector's row says of its schedule and its policies.
type Columns struct {
	ID                 int32
	Cron               *string
	Zone               string
	DSTGap, DSTOverlap *string
	Deadline           *int32 // minutes
	Overlap            string
	OncePer            *string
	CatchUp            string
	Most               int32
	Window             *int32 // minutes
	Through            *time.Time
	ClaimedAt, OverAt  *time.Time
	ClaimedFor         *time.Time // what the last sync was for, null where it was over without having completed
	SyncedFor          *time.Time
	Calendar           *Calendar // nil where it names none
	Blackouts          []Blackout
}

// Policies are those of the columns.
func (c Columns) Policies() Policies {
	p := Policies{Deadline: minutes(c.Deadline), Overlap: c.Overlap, CatchUp: c.CatchUp, Most: int(c.Most), Window: minutes(c.Window)}
	if c.OncePer != nil {
		p.OncePer = Period(*c.OncePer)
	}
	return p
}

// Schedule is that of the columns' cron expression. It returns cron.ErrSchedule.
func (c Columns) Schedule() (Schedule, error) {
	parsed, err := cron.Parse(cron.Columns(*c.Cron, c.Zone, c.ID, c.DSTGap, c.DSTOverlap))
	if err != nil {
		return Schedule{}, err
	}
	return Cron(parsed, c.Policies()).On(c.Calendar).Under(c.ID, c.Blackouts), nil
}

// IntervalAt is the schedule of the columns' interval, whose slot is known.
func (c Columns) IntervalAt(slot time.Time) Schedule {
	return Interval(slot, c.Policies()).On(c.Calendar).Under(c.ID, c.Blackouts)
}

// State is where the columns stand.
func (c Columns) State() State {
	s := State{Through: moment(c.Through), ClaimedAt: moment(c.ClaimedAt), OverAt: moment(c.OverAt)}
	if c.SyncedFor != nil {
		s.Completed = append(s.Completed, *c.SyncedFor)
	}
	if c.OverAt != nil && c.ClaimedFor != nil {
		s.Completed = append(s.Completed, *c.ClaimedFor)
	}
	return s
}

func minutes(n *int32) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Minute
}

func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
