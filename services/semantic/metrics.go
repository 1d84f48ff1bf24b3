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
	// The others measure the maintenance.
	lostInTransit prometheus.Counter
	unswept       prometheus.Gauge
	deletion      prometheus.Gauge // the oldest one's age
	looks         *prometheus.HistogramVec
	events        *prometheus.CounterVec
	eventsWaiting prometheus.Gauge
	eventsAge     prometheus.Gauge
	eventsDropped *prometheus.GaugeVec
}

// What became of an event.
const (
	asPublished      = "published"
	asUnacknowledged = "unacknowledged"
	// asForgotten marks the verdict of a run that the ledger has dropped before.
	asForgotten = "forgotten"
)

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
	gauge("semantic_workers", "Batches that this process embeds and stores at the same time; half of them are of long messages.").Set(float64(2 * workers))
	return &metrics{
		messages: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "semantic_messages_total", Help: "document.process messages, by result; waited counts batches, at each try.",
		}, []string{"result"})),
		failures:  counter("semantic_embed_errors_total", "Calls of the embedder without an answer."),
		texts:     counter("semantic_embed_texts_total", "Texts embedded."),
		documents: counter("semantic_document_errors_total", "Documents that were stored with an error instead of their text."),
		busy:      gauge("semantic_workers_busy", "Batches at work."),
		stored:    counter("semantic_messages_stored_total", "document.process messages that a run has counted as stored."),
		chunks:    counter("semantic_chunks_stored_total", "Chunks stored."),
		verdicts: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "semantic_runs_total", Help: "Runs that semantic has ended, by verdict; a run that sent nothing is ended by its worker.",
		}, []string{"verdict"})),
		deadLetters:   counter("semantic_dead_letters_total", "Messages that were given up."),
		checkpoints:   counter("semantic_checkpoints_total", "Times a checkpoint became a connector's state."),
		waits:         counter("semantic_waits_total", "Times that a batch had to wait for one of our servers."),
		points:        counter("semantic_index_points_total", "Chunks written to the search index."),
		outdated:      counter("semantic_index_outdated_total", "Points that a review of the search index found outdated; they are removed or written again."),
		indexErrors:   counter("semantic_index_errors_total", "Requests to the search index without an answer, or with a wrong one."),
		indexQueue:    gauge("semantic_index_queue", "Changed documents that are not yet written to the search index, up to 100,000."),
		indexing:      histogram("semantic_index_duration_seconds", "Time to write one batch of changes to the search index."),
		storing:       histogram("semantic_store_duration_seconds", "Time of one store transaction."),
		embedding:     histogram("semantic_embed_duration_seconds", "Time to embed one batch."),
		lostInTransit: counter("semantic_lost_in_transit_total", "Runs that ended because the stream had lost some of their documents."),
		unswept:       gauge("semantic_unswept_runs", "Ended runs whose leftovers are still to be removed, up to 100,000."),
		deletion:      gauge("semantic_oldest_deletion_seconds", "How long ago the connector was deleted whose documents wait longest to be removed; 0 where none wait."),
		looks: telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "semantic_look_duration_seconds", Help: "Time of one look, by kind.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"look"})),
		events: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "semantic_events_total", Help: "Events that this process has published, or tried to, by result; one that was not acknowledged is published again.",
		}, []string{"result"})),
		eventsWaiting: gauge("semantic_events_waiting", "Events that wait to be published, at most: from the oldest to the newest, without what was dropped between them."),
		eventsAge:     gauge("semantic_oldest_event_seconds", "How long the oldest event has waited to be published; 0 where none wait."),
		eventsDropped: telemetry.Register(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "semantic_events_dropped", Help: "Events that were ever dropped because too many waited, by kind; it stands in Postgres, and every process says the same.",
		}, []string{"kind"})),
	}
}

// waited counts a batch that had to wait for a server.
func (m *metrics) waited() {
	m.waits.Inc()
	m.messages.WithLabelValues(asWaited).Inc()
}
