package semantic

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

type metrics struct {
	stored      prometheus.Counter
	chunks      prometheus.Counter
	verdicts    *prometheus.CounterVec
	deadLetters prometheus.Counter
	checkpoints prometheus.Counter
	waits       prometheus.Counter
	storing     prometheus.Histogram
	embedding   prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return telemetry.Register(registry, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	histogram := func(name, help string) prometheus.Histogram {
		return telemetry.Register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}))
	}
	return &metrics{
		stored: counter("semantic_messages_stored_total", "document.process messages counted into a run."),
		chunks: counter("semantic_chunks_stored_total", "Chunks stored."),
		verdicts: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "semantic_runs_total", Help: "Runs completed, by verdict.",
		}, []string{"verdict"})),
		deadLetters: counter("semantic_dead_letters_total", "Messages that were given up."),
		checkpoints: counter("semantic_checkpoints_total", "Times a checkpoint became a connector's state."),
		waits:       counter("semantic_waits_total", "Times a batch had to wait for a server of ours."),
		storing:     histogram("semantic_store_duration_seconds", "Time of one store transaction."),
		embedding:   histogram("semantic_embed_duration_seconds", "Time to embed one batch."),
	}
}
