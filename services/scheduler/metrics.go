package scheduler

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

type metrics struct {
	leader        prometheus.Gauge
	terms         prometheus.Counter
	ticks         prometheus.Counter
	ticking       prometheus.Histogram
	tickErrors    prometheus.Counter
	claimed       *prometheus.CounterVec
	jobs          *prometheus.CounterVec
	lag           *prometheus.HistogramVec
	publishErrors prometheus.Counter
	republished   *prometheus.CounterVec
	rescued       *prometheus.CounterVec
	conditions    *prometheus.CounterVec
	conditionTime *prometheus.HistogramVec
	chains        *prometheus.CounterVec
	held          *prometheus.CounterVec
	badSchedules  prometheus.Counter
	left          *prometheus.GaugeVec
	looks         *prometheus.HistogramVec
	ledger        ledgerMetrics
	backlog       backlogMetrics
	streams       streamMetrics
	server        serverMetrics
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := maker{registry}
	return &metrics{
		leader:     m.gauge("scheduler_leader", "1 while this scheduler leads; without an election, always."),
		terms:      m.counter("scheduler_leader_changes_total", "Times that this scheduler began to lead."),
		ticks:      m.counter("scheduler_ticks_total", "Ticks: looks for what is due."),
		tickErrors: m.counter("scheduler_tick_errors_total", "Ticks that ended early."),
		ticking: telemetry.Register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_tick_duration_seconds", Help: "Time that a tick takes for one type that has something due, with all that it claims and publishes.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		})),
		claimed: m.counters("scheduler_claimed_total", "Connectors claimed: PENDING in Postgres, and about to be published.", "type"),
		jobs:    m.counters("scheduler_jobs_total", "Syncs that were dispatched and acknowledged by the stream.", "type"),
		lag: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_dispatch_lag_seconds", Help: "Time from due to published, by Postgres's clock up to the claim.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}, []string{"type"})),
		publishErrors: m.counter("scheduler_publish_errors_total", "Batches with a message that was not acknowledged."),
		republished:   m.counters("scheduler_republished_total", "Messages that were lost and published again.", "type"),
		rescued:       m.counters("scheduler_rescued_total", "Connectors that were claimed again after a lost worker.", "type"),
		conditions:    m.counters("scheduler_conditions_total", "Jobs whose condition was asked, by what it said: met, not met, failed.", "condition", "outcome"),
		conditionTime: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_condition_duration_seconds", Help: "Time in which a condition was asked about a batch of jobs.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"condition"})),
		chains:       m.counters("scheduler_chains_total", "Connectors that run after others and were looked at, by what came of it: let go, missed (one that it waits for did not come in time), waits.", "outcome"),
		held:         m.counters("scheduler_blackout_held_total", "Connectors that were due within a blackout window, and wait for its end.", "blackout"),
		badSchedules: m.counter("scheduler_bad_schedules_total", "Connectors that were disabled, because their schedules cannot be worked out."),
		left: m.gauges("scheduler_look_left", "About how many connectors the last look left to the next one, because its time was over, or the "+
			"stream or Postgres took nothing more; 0 = it came to its end.", "look"),
		looks: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_look_duration_seconds", Help: "Time of one look, by what is looked for.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"look"})),
		ledger:  newLedgerMetrics(m),
		backlog: newBacklogMetrics(m),
		streams: newStreamMetrics(m),
		server:  newServerMetrics(m),
	}
}

// maker makes registered metrics.
type maker struct{ registry prometheus.Registerer }

func (m maker) counter(name, help string) prometheus.Counter {
	return telemetry.Register(m.registry, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return telemetry.Register(m.registry, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	return telemetry.Register(m.registry, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (m maker) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return telemetry.Register(m.registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// dispatched counts one acknowledged trigger. The lag is due to claim by Postgres's clock, plus claim to
// acknowledgement by this process's, so that two clocks are never compared.
func (m *metrics) dispatched(t *Trigger) {
	m.jobs.WithLabelValues(t.Type).Inc()
	if !t.DueAt.IsZero() {
		m.lag.WithLabelValues(t.Type).Observe((t.DispatchedAt.Sub(t.DueAt) + time.Since(t.claimedAt)).Seconds())
	}
}

// ticked counts what one type had to do in a tick; not what was broken off.
func (m *metrics) ticked(ctx context.Context, began time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	m.ticking.Observe(time.Since(began).Seconds())
	if err != nil {
		m.tickErrors.Inc()
	}
}
