package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type backlogMetrics struct {
	connectors, due, oldestDue, oldestPending, longestPutOff, late, expired *prometheus.GaugeVec
	pending, draining, oldestDrain                                          prometheus.Gauge
	keyWaiting, keysWaited, oldestKeyWait, keyPlaces                        prometheus.Gauge
}

func newBacklogMetrics(m maker) backlogMetrics {
	return backlogMetrics{
		connectors:    m.gauges("scheduler_connectors", "Connectors that are not ACTIVE.", "type", "status"),
		pending:       m.gauge("scheduler_pending_syncs", "Connectors whose message waits to be picked up."),
		due:           m.gauges("scheduler_due_connectors", "Connectors that are due and not claimed.", "type"),
		oldestDue:     m.gauges("scheduler_oldest_due_seconds", "For how long the connector that waits longest has been due; 0 = none is due.", "type"),
		oldestPending: m.gauges("scheduler_oldest_pending_seconds", "For how long the oldest trigger has waited to be picked up; 0 = none does.", "type"),
		longestPutOff: m.gauges("scheduler_longest_put_off_seconds",
			"For how long the connector that is put off longest by its source has come no further; 0 = none is.", "type"),
		late:        m.gauges("scheduler_late_connectors", "Connectors that are older than fresh_within_minutes says they may be; counted up to 100,000.", "type"),
		expired:     m.gauges("scheduler_expired_leases", "Connectors at work whose worker has not renewed its lease in time.", "type"),
		draining:    m.gauge("scheduler_draining_runs", "Runs whose worker is done and whose documents are queued."),
		oldestDrain: m.gauge("scheduler_oldest_drain_seconds", "For how long the oldest draining run has been; 0 = none is."),
		keyWaiting:  m.gauge("scheduler_key_waiting_connectors", "Connectors that are due and wait because a concurrency key is full; counted up to 100,000."),
		keysWaited:  m.gauge("scheduler_keys_waited_for", "Concurrency keys that connectors wait for; of up to 100,000 connectors."),
		oldestKeyWait: m.gauge("scheduler_oldest_key_wait_seconds",
			"For how long the connector that waits longest for a concurrency key has been due; of up to 100,000. 0 = none waits."),
		keyPlaces: m.gauge("scheduler_key_places", "Places of concurrency keys that runs in flight have; counted up to 100,000."),
	}
}

func (m *backlogMetrics) reset() {
	for _, vec := range []*prometheus.GaugeVec{m.connectors, m.due, m.oldestDue, m.oldestPending, m.longestPutOff, m.late, m.expired} {
		vec.Reset()
	}
	for _, gauge := range []prometheus.Gauge{m.pending, m.draining, m.oldestDrain, m.keyWaiting, m.keysWaited, m.oldestKeyWait, m.keyPlaces} {
		gauge.Set(0)
	}
}

// measureBacklog counts what is due, waiting, at work or at fault. It reads indexes that hold none of the connectors at
// rest.
func (s *Scheduler) measureBacklog(ctx context.Context) error {
	m := &s.metrics.backlog
	statuses, errStatuses := s.queries.ConnectorsByStatus(ctx)
	if errStatuses == nil {
		m.connectors.Reset()
		pending, draining, oldest := int64(0), int64(0), 0.0
		for _, row := range statuses {
			m.connectors.WithLabelValues(row.Type, row.Status).Set(float64(row.Count))
			if row.Status == "PENDING" {
				pending += row.Count
			}
			draining, oldest = draining+row.Draining, max(oldest, row.OldestDrain)
		}
		m.pending.Set(float64(pending))
		m.draining.Set(float64(draining))
		m.oldestDrain.Set(oldest)
	}
	types, errTypes := s.queries.Backlog(ctx)
	for _, row := range types {
		m.due.WithLabelValues(row.Name).Set(float64(row.Due))
		m.oldestDue.WithLabelValues(row.Name).Set(row.OldestDue)
		m.oldestPending.WithLabelValues(row.Name).Set(row.OldestPending)
		m.longestPutOff.WithLabelValues(row.Name).Set(row.LongestPutOff)
		m.late.WithLabelValues(row.Name).Set(float64(row.Late))
		m.expired.WithLabelValues(row.Name).Set(float64(row.Expired))
		// A counter that is born with its first counts hides them from Prometheus, which sees no rise: born at 0.
		s.metrics.republished.WithLabelValues(row.Name)
		s.metrics.rescued.WithLabelValues(row.Name)
	}
	if err := errors.Join(errStatuses, errTypes); err != nil {
		return fmt.Errorf("count the backlog: %w", err)
	}
	return nil
}
