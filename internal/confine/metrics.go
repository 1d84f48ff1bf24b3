package confine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

// Metrics are the metrics of all pools of a process.
type Metrics struct {
	alive  prometheus.Gauge
	failed *prometheus.CounterVec
	slow   prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		alive: telemetry.Register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "reader_children", Help: "Child processes that read content.",
		})),
		failed: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reader_failures_total", Help: "Documents that ended the child that read them: memory, cpu, late (no answer in time), broken, spent (slow, and its sync had too many of these), or killed by another process.",
		}, []string{"reason"})),
		slow: telemetry.Register(registry, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "reader_slow_total", Help: "Documents that needed more than their first slice of computing time.",
		})),
	}
	for _, cause := range []Cause{Memory, CPU, Late, Broken, Spent, Killed} {
		m.failed.WithLabelValues(string(cause))
	}
	return m
}
