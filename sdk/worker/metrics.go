package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

type metrics struct {
	syncs          *prometheus.CounterVec
	fetching       prometheus.Observer
	busy           prometheus.Gauge
	stuck          prometheus.Gauge
	published      prometheus.Counter
	publishRetries prometheus.Counter
	deadLetters    prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, connectorType string) *metrics {
	label := []string{"type"}
	counter := func(name, help string) prometheus.Counter {
		return telemetry.Register(registry, prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: name, Help: help}, label)).WithLabelValues(connectorType)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return telemetry.Register(registry, prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: name, Help: help}, label)).WithLabelValues(connectorType)
	}
	return &metrics{
		syncs: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worker_syncs_total", Help: "Syncs that a worker ended, by how.",
		}, []string{"type", "outcome"})).MustCurryWith(prometheus.Labels{"type": connectorType}),
		fetching: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "worker_fetch_duration_seconds", Help: "Time from pick-up to the handler's end.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}, label)).WithLabelValues(connectorType),
		busy:           gauge("worker_slots_busy", "Slots that hold a sync."),
		stuck:          gauge("worker_stuck_handlers", "Handlers that were left behind: their contexts have ended, they have not."),
		published:      counter("worker_documents_published_total", "document.process messages acknowledged."),
		publishRetries: counter("worker_publish_retries_total", "Publishes that had to be repeated."),
		deadLetters:    counter("worker_dead_letters_total", "Triggers that were given up."),
	}
}
