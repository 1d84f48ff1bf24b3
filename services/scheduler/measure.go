package scheduler

import (
	"context"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

// measureEvery is the time between two looks for the metrics.
const measureEvery = 10 * time.Second

// measure looks at the ledger, the backlog, the streams and Postgres until ctx ends. Only the leader does, so that a sum
// over all schedulers counts a verdict once; those between two leaders are in the ledger only. What is away is left as
// it was measured last, and hinders nothing else.
func (s *Scheduler) measure(ctx context.Context) error {
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	defer s.forget()
	var since time.Time
	for {
		for _, look := range []struct {
			name string
			at   func(context.Context) error
		}{
			{"scheduler.measure_ledger", func(ctx context.Context) (err error) { since, err = s.measureLedger(ctx, since); return err }},
			{"scheduler.measure_backlog", s.measureBacklog},
			{"scheduler.measure_keys", s.measureKeys},
			{"scheduler.measure_streams", s.measureStreams},
			{"scheduler.measure_server", s.measureServer},
		} {
			if err := deadline.Do(ctx, look.name, queryTimeout, look.at); err != nil && ctx.Err() == nil {
				s.log.Debug("measure again later", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// forget leaves no figures behind that another leader measures now.
func (s *Scheduler) forget() {
	s.metrics.left.Reset()
	s.metrics.backlog.reset()
	s.metrics.streams.reset()
	s.metrics.server.reset()
}
