package semantic

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

type metrics struct {
	messages    *prometheus.CounterVec
	stored      prometheus.Counter
	chunks      prometheus.Counter
	verdicts    *prometheus.CounterVec
	deadLetters prometheus.Counter
	checkpoints prometheus.Counter
	waits       prometheus.Counter
	failures    prometheus.Counter // of the embedder
	texts       prometheus.Counter
	documents   prometheus.Counter // stored with an error
	points      prometheus.Counter
	outdated    prometheus.Counter // points
	indexErrors prometheus.Counter
	indexQueue  prometheus.Gauge
	indexing    prometheus.Histogram
	busy        prometheus.Gauge
	storing     prometheus.Histogram
	embedding   prometheus.Histogram
	// lostInTransit, unswept and looks measure the maintenance.
	lostInTransit prometheus.Counter
	unswept       prometheus.Gauge
	looks         *prometheus.HistogramVec
}

// What became of a message.
const (
	asStored     = "stored"
	asDuplicate  = "duplicate"
	asFenced     = "fenced"
	asDeadLetter = "dead_letter"
	asWaited     = "waited"
	// asServersAnswer marks a server's answer, which is no document: streams.ServersAnswer.
	asServersAnswer = "servers_answer"
)

func newMetrics(registry prometheus.Registerer, workers int) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return telemetry.Register(registry, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	histogram := func(name, help string) prometheus.Histogram {
		return telemetry.Register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return telemetry.Register(registry, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	gauge("semantic_workers", "Batches that this process embeds and stores at once.").Set(float64(workers))
	return &metrics{
		messages: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "semantic_messages_total", Help: "document.process messages by what became of them; waited counts batches, at each try.",
		}, []string{"result"})),
		failures:  counter("semantic_embed_errors_total", "Times the embedder gave no answer."),
		texts:     counter("semantic_embed_texts_total", "Texts embedded."),
		documents: counter("semantic_document_errors_total", "Documents that were stored with an error instead of their text."),
		busy:      gauge("semantic_workers_busy", "Batches at work."),
		stored:    counter("semantic_messages_stored_total", "document.process messages counted into a run."),
		chunks:    counter("semantic_chunks_stored_total", "Chunks stored."),
		verdicts: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "semantic_runs_total", Help: "Runs that semantic has ended, by verdict; one that sent nothing is ended by its worker.",
		}, []string{"verdict"})),
		deadLetters:   counter("semantic_dead_letters_total", "Messages that were given up."),
		checkpoints:   counter("semantic_checkpoints_total", "Times a checkpoint became a connector's state."),
		waits:         counter("semantic_waits_total", "Times a batch had to wait for a server of ours."),
		points:        counter("semantic_index_points_total", "Chunks brought to the search index."),
		outdated:      counter("semantic_index_outdated_total", "Points that a review of the search index found outdated; they are removed or written anew."),
		indexErrors:   counter("semantic_index_errors_total", "Times the search index gave no answer, or a wrong one."),
		indexQueue:    gauge("semantic_index_queue", "Documents that changed and wait to be brought to the search index, up to 100,000."),
		indexing:      histogram("semantic_index_duration_seconds", "Time to bring one batch of changes to the search index."),
		storing:       histogram("semantic_store_duration_seconds", "Time of one store transaction."),
		embedding:     histogram("semantic_embed_duration_seconds", "Time to embed one batch."),
		lostInTransit: counter("semantic_lost_in_transit_total", "Runs that ended because the stream had lost documents of theirs."),
		unswept:       gauge("semantic_unswept_runs", "Ended runs whose leftovers are still to be removed, up to 100,000."),
		looks: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "semantic_look_duration_seconds", Help: "Time of one look, by what is looked after.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"look"})),
	}
}

// waited counts a batch that had to wait for a server.
func (m *metrics) waited() {
	m.waits.Inc()
	m.messages.WithLabelValues(asWaited).Inc()
}
