package worker

import (
	"context"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker/internal/dbgen"
)

const (
	// retryEvery is how often somebody looks for connectors that other settings have refused: while a rollout goes on, a process with the old
	// settings may refuse them once more.
	retryEvery = 15 * time.Second
	// retryNext is how soon the next page follows.
	retryNext = time.Second
	// retryPage is at how many a look looks in one transaction.
	retryPage = 200
	// retryMost is how many of a type may be due by it and not begun, and a tenth of that of an owner. Others stand behind no more of them, however many were
	// refused.
	retryMost = 100
)

// fail writes a failure down; of an error of Refused also which settings have refused it.
func (w *Worker) fail(ctx context.Context, try lifecycle.Try, kind lifecycle.Failure, err, cause error) error {
	if kind == lifecycle.Permanent && w.config.Reach != "" && isRefused(err) {
		return w.lifecycle.FailRefused(ctx, try, message(err, cause), w.config.Reach)
	}
	return w.lifecycle.Fail(ctx, try, kind, message(err, cause))
}

// retryRefused has connectors tried again, until ctx ends, that a service with other settings has refused.
func (w *Worker) retryRefused(ctx context.Context) {
	place, failures := dbgen.RetryRefusedRow{}, 0
	for pause := time.Duration(0); repeat.Sleep(ctx, pause) == nil; {
		pause = retryEvery
		next, err := deadline.Get(ctx, "worker.retry_refused", queryTimeout, func(ctx context.Context) (dbgen.RetryRefusedRow, error) {
			return w.queries.RetryRefused(ctx, dbgen.RetryRefusedParams{
				Type: w.connectorType, Reach: w.config.Reach, Page: retryPage, Most: retryMost,
				AfterReach: place.NextReach, AfterOwner: place.NextOwner, AfterID: place.NextID,
			})
		})
		switch {
		case err == nil:
			if place, failures = next, 0; next.NextReach != "" {
				pause = retryNext
			}
			if next.Retried > 0 {
				w.log.Info("connectors that other settings of this service have refused are tried again", "connectors", next.Retried)
			}
		case ctx.Err() == nil:
			if failures++; failures == 1 {
				w.log.Warn("connectors that other settings of this service have refused are tried again later", "err", err)
			}
		}
	}
}
