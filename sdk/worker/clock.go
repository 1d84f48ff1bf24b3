package worker

import (
	"sync"
	"time"
)

// workClock measures how long a run works, and says when that is too long. It stands still while the run waits for
// Postgres or the broker: our own outages are waits, and no run fails for them.
type workClock struct {
	most time.Duration
	late func()

	mu     sync.Mutex
	timer  *time.Timer
	worked time.Duration // up to since
	since  time.Time     // when the work went on
	waits  int           // how many waits are under way
}

// startClock starts a clock that calls late after `most` of work.
func startClock(most time.Duration, late func()) *workClock {
	c := &workClock{most: most, late: late}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Now()
	c.timer = time.AfterFunc(most, c.expires)
	return c
}

// wait stops the clock, until the returned function is called, for a wait that began at a moment: what passed from there
// on was no work. Waits may overlap.
func (c *workClock) wait(began time.Time) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == 0 {
		c.timer.Stop()
		c.worked += max(0, began.Sub(c.since))
	}
	c.waits++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waits--; c.waits == 0 {
			c.since = time.Now()
			c.timer.Reset(c.most - c.worked)
		}
	})
}

// expires looks again: a wait may have begun when the timer fired already.
func (c *workClock) expires() {
	c.mu.Lock()
	isLate := c.waits == 0 && c.worked+time.Since(c.since) >= c.most
	c.mu.Unlock()
	if isLate {
		c.late()
	}
}

func (c *workClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits++ // no wait that ends later starts it again
	c.timer.Stop()
}

// wait is one that begins with the first of several failures, and ends with the last.
type wait struct{ over func() }

func (w *wait) begin(c *workClock, began time.Time) {
	if w.over == nil {
		w.over = c.wait(began)
	}
}

func (w *wait) end() {
	if w.over != nil {
		w.over()
		w.over = nil
	}
}
