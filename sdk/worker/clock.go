package worker

import (
	"sync"
	"time"
)

// longestWaits is how long a run may wait altogether because its source asked for it. A longer wait postpones the run instead,
// because a waiting run holds a slot and a place.
const longestWaits = time.Hour

// workClock measures how long a run works, and calls late when that is too long. It stops while the run waits for Postgres, the
// broker, or a source that asked for it: no run fails for a wait.
type workClock struct {
	most time.Duration
	late func()

	mu     sync.Mutex
	timer  *time.Timer
	worked time.Duration // up to since
	since  time.Time     // when the work went on
	waits  int           // how many waits are under way

	waited time.Duration // for the source, up to asked
	asked  time.Time     // when the waits for the source began that are under way
	asking int           // how many of these there are
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

// wait stops the clock until the returned function is called. The wait began at began; the time since then was no work. Waits may
// overlap.
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

// waitAsAsked stops the clock as wait does, for a wait of d that the source has asked for and that begins now. It returns false,
// and the clock runs on, where the run would wait for its source for longer than it may.
func (c *workClock) waitAsAsked(d time.Duration) (over func(), mayWait bool) {
	now := time.Now()
	c.mu.Lock()
	waited := c.waited
	if c.asking > 0 {
		waited += now.Sub(c.asked)
	}
	if d > longestWaits-waited {
		c.mu.Unlock()
		return nil, false
	}
	if c.asking == 0 {
		c.asked = now
	}
	c.asking++
	c.mu.Unlock()
	goesOn := c.wait(now)
	end := sync.OnceFunc(func() {
		c.mu.Lock()
		if c.asking--; c.asking == 0 {
			c.waited += time.Since(c.asked)
		}
		c.mu.Unlock()
		goesOn()
	})
	timer := time.AfterFunc(d, end)
	return func() { timer.Stop(); end() }, true
}

// isAsked says whether a wait is under way that the source has asked for.
func (c *workClock) isAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asking > 0
}

// expires checks again: a wait may have begun after the timer fired.
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

// wait is a wait that begins with the first of several failures, and ends with the last.
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
