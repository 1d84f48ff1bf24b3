package connect

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/version"
)

// MeasurePool measures a service that has a pool and keeps no connection to NATS, until end is called.
func MeasurePool(registry prometheus.Registerer, service string, pool *pgxpool.Pool) (end func()) {
	return measure(registry, newConnections(service, pool, nil))
}

func measure(registry prometheus.Registerer, measured *connections) (end func()) {
	if registry.Register(measured) != nil {
		return func() {} // the connections of a service of this name are measured already
	}
	return func() { registry.Unregister(measured) }
}

// connections are the metrics of one service's connections, collected at each scrape. Without a connection to NATS that is kept
// nothing is said of it.
type connections struct {
	pool *pgxpool.Pool
	nats *nats.Conn

	build, held, most, waits, waited, connected, reconnects *prometheus.Desc
}

func newConnections(service string, pool *pgxpool.Pool, conn *nats.Conn) *connections {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, prometheus.Labels{"service": service})
	}
	return &connections{
		pool: pool, nats: conn,
		build:      describe("echomind_build_info", "1, labelled with the version of the build.", "version"),
		held:       describe("postgres_pool_connections", "Connections of the service's pool, by state.", "state"),
		most:       describe("postgres_pool_max_connections", "Connections that the pool may have."),
		waits:      describe("postgres_pool_waits_total", "Times that a request for a connection had to wait."),
		waited:     describe("postgres_pool_wait_seconds_total", "Time that requests for a connection waited."),
		connected:  describe("nats_connected", "1 while the service is connected to NATS."),
		reconnects: describe("nats_reconnects_total", "Times that the connection to NATS was made again."),
	}
}

// Describe is part of prometheus.Collector.
func (c *connections) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.build, c.held, c.most, c.waits, c.waited} {
		out <- d
	}
	if c.nats != nil {
		out <- c.connected
		out <- c.reconnects
	}
}

// Collect is part of prometheus.Collector.
func (c *connections) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value)
	}
	gauge(c.build, 1, version.Release())
	stat := c.pool.Stat()
	gauge(c.held, float64(stat.IdleConns()), "idle")
	gauge(c.held, float64(stat.AcquiredConns()), "acquired")
	gauge(c.held, float64(stat.ConstructingConns()), "constructing")
	gauge(c.most, float64(stat.MaxConns()))
	counter(c.waits, float64(stat.EmptyAcquireCount()))
	counter(c.waited, stat.EmptyAcquireWaitTime().Seconds())
	if c.nats == nil {
		return
	}
	is := 0.0
	if c.nats.IsConnected() {
		is = 1
	}
	gauge(c.connected, is)
	counter(c.reconnects, float64(c.nats.Stats().Reconnects))
}
