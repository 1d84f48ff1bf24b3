// Package leader elects one scheduler among several. A leader only saves work: claims are safe without one, because
// every step of the scheduler is a guarded statement. So the durations are short, and a leader that wrongly believes in
// itself for a moment does no harm.
//
//	election     held by                        lost when
//	none         everybody                      never
//	postgres     a session's advisory lock      the connection breaks, or a heartbeat is not answered in time
//	kubernetes   a Lease (package lease)        it could not be renewed in time, or carries another name
//
//	                elected                        lost, or asked to stop
//	standby ───────────────────▶ leader: work runs ───────────────────▶ work's context has ended ──▶ work has returned
//	   ▲                                                                                                  │
//	   └──────────────────────────────────── given back ◀─────────────────────────────────────────────────┘
//
// The work is always waited for before leadership is given back or asked for again. What fails, fails as a wait: an
// election that cannot be held is repeated until it can, and nobody leads meanwhile.
package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Work is what only the leader does. It returns soon after its context has ended; its error ends the candidate.
type Work func(ctx context.Context) error

// Elector takes part in elections.
type Elector interface {
	// Run runs work whenever this candidate is elected, until ctx ends; then it gives leadership back. It returns the
	// error of work, or nil.
	Run(ctx context.Context, work Work) error
}

var (
	// ErrLost is why the context of work has ended where leadership was lost.
	ErrLost = errors.New("leadership was lost")
	// ErrStandby says that another candidate leads, or nobody.
	ErrStandby = errors.New("not the leader")
)

// remindEvery is how often a problem that stays is logged again.
const remindEvery = 30 * time.Second

// Candidate is what is known of this process's part in the election. It is safe for concurrent use.
type Candidate struct {
	log   *slog.Logger
	gauge prometheus.Gauge

	mu      sync.Mutex
	leading bool
	alone   bool
	problem error
	logged  time.Time // when the problem was logged last
}

// NewCandidate makes a standby. gauge is 1 while it leads.
func NewCandidate(log *slog.Logger, gauge prometheus.Gauge) *Candidate {
	return &Candidate{log: log, gauge: gauge}
}

// Lead runs work as the leader.
func (c *Candidate) Lead(ctx context.Context, work Work) error {
	c.set(true)
	c.log.Info("this scheduler leads")
	err := work(ctx)
	c.set(false)
	if errors.Is(context.Cause(ctx), ErrLost) {
		c.log.Warn("this scheduler leads no more; it dispatches nothing until it is elected again", "err", context.Cause(ctx))
	}
	return err
}

func (c *Candidate) set(leading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading = leading
	c.gauge.Set(0)
	if leading {
		c.gauge.Set(1)
	}
}

// Report notes whether the election could be asked, and logs what changed: nil = it could.
func (c *Candidate) Report(problem error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case problem == nil && c.problem != nil:
		c.log.Info("the election works again")
	case problem != nil && (c.problem == nil || time.Since(c.logged) >= remindEvery):
		c.log.Warn("the election cannot be asked; it is repeated, and without a leader what is due stays due", "err", problem)
		c.logged = time.Now()
	}
	c.problem = problem
}

// IsLeader is nil while this candidate leads: it is gocron's Elector.
func (c *Candidate) IsLeader(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leading {
		return ErrStandby
	}
	return nil
}

// Check is the candidate's readiness: a standby is ready, one that cannot take part is not.
func (c *Candidate) Check(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// String is what readiness says.
func (c *Candidate) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.alone:
		return "no election"
	case c.leading:
		return "leader"
	}
	return "standby"
}
