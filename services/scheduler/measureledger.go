package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// measureLag leaves transactions time to commit before their verdicts are counted.
	measureLag = 5 * time.Second
	verdicts   = 1000
)

type ledgerMetrics struct {
	failed   *prometheus.CounterVec
	verdicts *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newLedgerMetrics(m maker) ledgerMetrics {
	return ledgerMetrics{
		failed: m.counters("scheduler_jobs_failed", "Runs whose verdict is failed.", "type"),
		verdicts: m.counters("scheduler_verdicts_total", "Verdicts of the ledger, by what it says was the reason.",
			"type", "verdict", "reason"),
		duration: telemetry.Register(m.registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_sync_duration_seconds", Help: "Time from due to verdict.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
		}, []string{"type", "verdict"})),
	}
}

// measureLedger counts the verdicts since a moment and returns where the next look begins.
func (s *Scheduler) measureLedger(ctx context.Context, since time.Time) (time.Time, error) {
	now, err := s.queries.Now(ctx)
	if err != nil {
		return since, fmt.Errorf("ask for the time: %w", err)
	}
	until := now.Add(-measureLag)
	if since.IsZero() {
		return until, nil
	}
	for since.Before(until) {
		runs, err := s.queries.Verdicts(ctx, dbgen.VerdictsParams{Since: since, Until: until, Page: verdicts})
		if err != nil {
			return since, fmt.Errorf("read the verdicts: %w", err)
		}
		for _, r := range runs {
			s.metrics.ledger.verdict(r)
			since = r.CompletedAt
		}
		if len(runs) < verdicts {
			since = until
		}
	}
	return since, nil
}

func (m *ledgerMetrics) verdict(r dbgen.VerdictsRow) {
	if r.Status == string(lifecycle.Failed) {
		m.failed.WithLabelValues(r.Type).Inc()
	}
	reason := ""
	if r.Reason != nil {
		reason = *r.Reason
	}
	// Any other reason is counted as other, so that labels stay bounded.
	if _, known := lifecycle.Reasons[lifecycle.Reason(reason)]; !known && reason != "" {
		reason = "other"
	}
	m.verdicts.WithLabelValues(r.Type, r.Status, reason).Inc()
	if r.Ran || r.Status == string(lifecycle.Missed) { // slots that are skipped may have their verdict before they come
		m.duration.WithLabelValues(r.Type, r.Status).Observe(r.CompletedAt.Sub(r.DueAt).Seconds())
	}
}
