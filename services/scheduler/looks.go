package scheduler

import (
	"context"
	"time"
)

const (
	// lookTime bounds one look. What it has not come to is the next look's.
	lookTime = 2 * time.Second
	// mostLeft bounds the count of what a look has left.
	mostLeft = 10000
)

// outcome is what a look has left to the next one.
type outcome struct {
	left int
	// late says that its time was over: the next look follows at once.
	late bool
}

// watch repeats a look until ctx ends. Each look has a loop of its own, so that none holds up another.
func (s *Scheduler) watch(ctx context.Context, name string, look func(context.Context) (outcome, error)) error {
	var ticker *time.Ticker
	for {
		began := time.Now()
		found, err := look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.metrics.looks.WithLabelValues(name).Observe(time.Since(began).Seconds())
		s.metrics.left.WithLabelValues(name).Set(float64(found.left))
		if err != nil {
			s.log.Warn("a look ended early; it is repeated", "look", name, "err", err)
		}
		if found.late && err == nil {
			continue
		}
		if ticker == nil { // after the first look: so the patience that begins with it ends before a tick, not behind it
			ticker = time.NewTicker(seconds(s.config.WatchIntervalSeconds))
			defer ticker.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
