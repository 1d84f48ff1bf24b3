package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

type metrics struct {
	requests   *prometheus.HistogramVec
	watchers   prometheus.Gauge
	operations *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	return &metrics{requests: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "api_request_seconds", Help: "How long requests took, by method and status.",
		Buckets: []float64{.005, .01, .025, .05, .1, .15, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "status"})), watchers: telemetry.Register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "api_watchers", Help: "How many streams of events are open: GET /api/v1/events.",
	})), operations: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "api_operation_connectors_total", Help: "Connectors that bulk operations have come to, by action and what came of it: changed, unchanged, skipped, failed.",
	}, []string{"action", "result"}))}
}

func (m *metrics) answered(method string, status int, took time.Duration) {
	switch method {
	case "GET", "POST", "PATCH", "DELETE":
	default:
		method = "other" // a client may call its method as it likes
	}
	m.requests.WithLabelValues(method, strconv.Itoa(status)).Observe(took.Seconds())
}
