package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// measureEvery is the time between two looks at the ledger for the metrics.
	measureEvery = 10 * time.Second
	// measureLag leaves transactions time to commit before their verdicts are counted.
	measureLag = 5 * time.Second
	verdicts   = 1000
)

type metrics struct {
	leader        prometheus.Gauge
	jobs          *prometheus.CounterVec
	failed        *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	lag           *prometheus.HistogramVec
	pending       prometheus.Gauge
	republished   *prometheus.CounterVec
	rescued       *prometheus.CounterVec
	lostInTransit prometheus.Counter
	publishErrors prometheus.Counter
	tickErrors    prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	counter := func(name, help string) prometheus.Counter {
		return telemetry.Register(registry, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	return &metrics{
		leader: telemetry.Register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "scheduler_leader", Help: "1 while this scheduler leads; without an election, always.",
		})),
		jobs:   vec("scheduler_jobs_total", "Syncs that were dispatched and acknowledged by the stream.", "type"),
		failed: vec("scheduler_jobs_failed", "Runs whose verdict is failed.", "type"),
		duration: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_sync_duration_seconds", Help: "Time from due to verdict.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
		}, []string{"type", "verdict"})),
		lag: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_dispatch_lag_seconds", Help: "Time from due to published, by Postgres's clock up to the claim.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}, []string{"type"})),
		pending: telemetry.Register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "scheduler_pending_syncs", Help: "Connectors whose message waits to be picked up.",
		})),
		republished:   vec("scheduler_republished_total", "Messages that were lost and published again.", "type"),
		rescued:       vec("scheduler_rescued_total", "Connectors that were claimed again after a lost worker.", "type"),
		lostInTransit: counter("scheduler_lost_in_transit_total", "Runs whose documents were lost between worker and store."),
		publishErrors: counter("scheduler_publish_errors_total", "Batches of which some message was not acknowledged."),
		tickErrors:    counter("scheduler_tick_errors_total", "Ticks that ended early."),
	}
}

// dispatched counts one acknowledged trigger. The lag is due to claim by Postgres's clock, plus claim to
// acknowledgement by this process's, so that two clocks are never compared.
func (m *metrics) dispatched(connectorType string, t *Trigger) {
	m.jobs.WithLabelValues(connectorType).Inc()
	if !t.DueAt.IsZero() {
		m.lag.WithLabelValues(connectorType).Observe((t.DispatchedAt.Sub(t.DueAt) + time.Since(t.claimedAt)).Seconds())
	}
}

// measure reads the ledger for the metrics until ctx ends. Only the leader does, so that a sum over all schedulers counts
// a verdict once; those between two leaders are in the ledger only.
func (s *Scheduler) measure(ctx context.Context) error {
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	defer s.metrics.pending.Set(0)
	var since time.Time
	for {
		var err error
		if since, err = s.measureOnce(ctx, since); err != nil && ctx.Err() == nil {
			s.log.Debug("measure again later", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// measureOnce counts the verdicts since a moment and returns where the next look begins.
func (s *Scheduler) measureOnce(ctx context.Context, since time.Time) (time.Time, error) {
	err := deadline.Do(ctx, "scheduler.measure", queryTimeout, func(ctx context.Context) error {
		pending, errPending := s.queries.PendingSyncs(ctx)
		if errPending == nil {
			s.metrics.pending.Set(float64(pending))
		}
		now, err := s.queries.Now(ctx)
		if err != nil {
			return errors.Join(errPending, err)
		}
		until := now.Add(-measureLag)
		if since.IsZero() {
			since = until
		}
		for since.Before(until) {
			runs, err := s.queries.Verdicts(ctx, dbgen.VerdictsParams{Since: since, Until: until, Page: verdicts})
			if err != nil {
				return errors.Join(errPending, err)
			}
			for _, r := range runs {
				s.metrics.verdict(r)
				since = *r.CompletedAt
			}
			if len(runs) < verdicts {
				since = until
			}
		}
		return errPending
	})
	if err != nil {
		return since, fmt.Errorf("measure: %w", err)
	}
	return since, nil
}

func (m *metrics) verdict(r dbgen.VerdictsRow) {
	connectorType := strings.TrimPrefix(r.JobName, "connector.sync.")
	if r.Status == string(lifecycle.Failed) {
		m.failed.WithLabelValues(connectorType).Inc()
	}
	m.duration.WithLabelValues(connectorType, r.Status).Observe(r.CompletedAt.Sub(r.DueAt).Seconds())
}
