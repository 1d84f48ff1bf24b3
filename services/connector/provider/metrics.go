package provider

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

// Metrics count the answers of providers. No label holds an account.
type Metrics struct {
	requests *prometheus.CounterVec
	waits    *prometheus.CounterVec
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	return &Metrics{
		requests: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "connector_provider_requests_total", Help: "Requests to providers, by outcome.",
		}, []string{"provider", "outcome"})),
		waits: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "connector_provider_throttled_seconds_total", Help: "Time that requests waited because a provider asked for it.",
		}, []string{"provider"})),
	}
}

func (m *Metrics) count(provider, outcome string) {
	if m != nil {
		m.requests.WithLabelValues(provider, outcome).Inc()
	}
}

func (m *Metrics) waited(provider string, d time.Duration) {
	if m != nil {
		m.waits.WithLabelValues(provider).Add(d.Seconds())
	}
}

// outcomes are the verdicts in metrics.
var outcomes = map[verdict]string{final: "answered", refused: "refused", throttled: "throttled", exhausted: "exhausted", broken: "broken"}
