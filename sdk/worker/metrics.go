package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/telemetry"
)

type metrics struct {
	messages       *prometheus.CounterVec
	pickingUp      prometheus.Observer
	leases         prometheus.Gauge
	renewals       *prometheus.CounterVec
	publishing     prometheus.Observer
	syncs          *prometheus.CounterVec
	fetching       prometheus.Observer
	busy           prometheus.Gauge
	stuck          prometheus.Gauge
	published      prometheus.Counter
	publishRetries prometheus.Counter
	deadLetters    prometheus.Counter
	waiting        prometheus.Gauge
	writtenOff     prometheus.Counter
	lockRequests   *prometheus.CounterVec
	lockWaits      prometheus.Observer
	locksHeld      prometheus.Gauge
	locksLost      prometheus.Counter
	providers      *prometheus.CounterVec
}

// What became of a trigger, and of a renewal.
const (
	pickedUp    = "picked_up"
	oldNews     = "old_news"
	undecodable = "undecodable"
	unanswered  = "unanswered"
	// serversAnswer is no trigger: streams.ServersAnswer.
	serversAnswer = "servers_answer"
	renewed       = "renewed"
	fenced        = "fenced"
	held          = "held"
)

func newMetrics(registry prometheus.Registerer, connectorType string, slots int) *metrics {
	label := []string{"type"}
	counter := func(name, help string) prometheus.Counter {
		return telemetry.Register(registry, prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: name, Help: help}, label)).WithLabelValues(connectorType)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return telemetry.Register(registry, prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: name, Help: help}, label)).WithLabelValues(connectorType)
	}
	counters := func(name, help, by string) *prometheus.CounterVec {
		return telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"type", by})).
			MustCurryWith(prometheus.Labels{"type": connectorType})
	}
	seconds := func(name, help string, least float64) prometheus.Observer {
		return telemetry.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(least, 4, 10),
		}, label)).WithLabelValues(connectorType)
	}
	gauge("worker_slots", "Slots: how many syncs this process runs at the same time.").Set(float64(slots))
	return &metrics{
		messages:       counters("worker_messages_total", "Triggers that were received, by result.", "result"),
		pickingUp:      seconds("worker_pick_up_duration_seconds", "Time from a trigger's receipt to the answer of Postgres.", 0.001),
		leases:         gauge("worker_leases_held", "Leases that this process renews."),
		renewals:       counters("worker_lease_renewals_total", "Renewals of leases, by Postgres's answer.", "result"),
		publishing:     seconds("worker_publish_duration_seconds", "Time to publish a document message, with all retries.", 0.001),
		syncs:          counters("worker_syncs_total", "Syncs that a worker ended, by outcome.", "outcome"),
		fetching:       seconds("worker_fetch_duration_seconds", "Time from pick-up to the handler's end.", 0.01),
		busy:           gauge("worker_slots_busy", "Slots with a sync."),
		stuck:          gauge("worker_stuck_handlers", "Handlers that still run although their contexts have ended."),
		published:      counter("worker_documents_published_total", "document.process messages acknowledged."),
		publishRetries: counter("worker_publish_retries_total", "Retries of publishes."),
		waiting:        gauge("worker_syncs_waiting", "Syncs that wait until more of their messages are stored."),
		writtenOff:     counter("worker_credit_written_off_total", "Messages that a sync no longer waits for, because none of its messages was stored for a long time."),
		lockRequests:   counters("worker_lock_requests_total", "Requests of runs for locks, by result.", "result"),
		lockWaits:      seconds("worker_lock_wait_seconds", "Time from a run's request for a lock until it had it.", 0.001),
		locksHeld:      gauge("worker_locks_held", "Locks that runs of this process hold."),
		locksLost:      counter("worker_locks_lost_total", "Locks that runs lost: not renewed in time, or released by a person."),
		providers:      counters("worker_provider_choices_total", "Choices of a provider: the first, a later one, or none that could be used.", "result"),
		deadLetters:    counter("worker_dead_letters_total", "Triggers that were given up."),
	}
}
