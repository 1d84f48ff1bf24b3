package worker

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/sdk/lifecycle"
)

// keepLease renews a run's lease until ctx ends. It shuts the gate while Postgres has not answered for a whole
// lease, because the run may have been rescued, and ends the run only when Postgres says that it was.
func (w *Worker) keepLease(ctx context.Context, session, owner uuid.UUID, g *gate, end context.CancelCauseFunc) {
	w.metrics.leases.Inc()
	defer w.metrics.leases.Dec()
	lease := w.config.lease()
	ticker := time.NewTicker(lease / 3)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := w.lifecycle.Renew(ctx, session, owner, lease)
		switch {
		case err == nil:
			w.metrics.renewals.WithLabelValues(renewed).Inc()
			last = time.Now()
			g.set(true)
		case errors.Is(err, lifecycle.ErrFenced):
			w.metrics.renewals.WithLabelValues(fenced).Inc()
			end(lifecycle.ErrFenced)
			return
		case ctx.Err() == nil:
			w.metrics.renewals.WithLabelValues(unanswered).Inc()
			if time.Since(last) >= lease {
				g.set(false)
			}
		}
	}
}
