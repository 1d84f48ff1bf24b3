package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/contract/topology"
)

type streamMetrics struct {
	up, messages, bytes, maxBytes, oldest, replicas *prometheus.GaugeVec
}

func newStreamMetrics(m maker) streamMetrics {
	return streamMetrics{
		up:       m.gauges("stream_up", "1 while a stream answers.", "stream"),
		messages: m.gauges("stream_messages", "Messages that a stream holds.", "stream"),
		bytes:    m.gauges("stream_bytes", "Bytes that a stream holds.", "stream"),
		maxBytes: m.gauges("stream_max_bytes", "Bytes at which a stream takes nothing more; 0 = it has no limit.", "stream"),
		oldest:   m.gauges("stream_oldest_message_age_seconds", "Age of the oldest message by the broker's clock; 0 = it holds none.", "stream"),
		replicas: m.gauges("stream_replicas", "Servers that keep a stream and are up to date.", "stream"),
	}
}

func (m *streamMetrics) reset() {
	for _, vec := range []*prometheus.GaugeVec{m.up, m.messages, m.bytes, m.maxBytes, m.oldest, m.replicas} {
		vec.Reset()
	}
}

// measureStreams asks every stream what it holds.
func (s *Scheduler) measureStreams(ctx context.Context) error {
	m := &s.metrics.streams
	var problems []error
	for _, name := range []string{topology.SyncStream, topology.DocumentStream, topology.DeadLetterStream} {
		stream, err := s.servers.Stream.Stream(ctx, name)
		if err != nil {
			m.up.WithLabelValues(name).Set(0)
			problems = append(problems, fmt.Errorf("look at stream %s: %w", name, err))
			continue
		}
		info := stream.CachedInfo()
		age := 0.0
		if info.State.Msgs > 0 {
			age = info.TimeStamp.Sub(info.State.FirstTime).Seconds()
		}
		current := 1
		if info.Cluster != nil {
			for _, peer := range info.Cluster.Replicas {
				if peer.Current && !peer.Offline {
					current++
				}
			}
		}
		m.up.WithLabelValues(name).Set(1)
		m.messages.WithLabelValues(name).Set(float64(info.State.Msgs))
		m.bytes.WithLabelValues(name).Set(float64(info.State.Bytes))
		m.maxBytes.WithLabelValues(name).Set(float64(max(info.Config.MaxBytes, 0)))
		m.oldest.WithLabelValues(name).Set(age)
		m.replicas.WithLabelValues(name).Set(float64(current))
	}
	return errors.Join(problems...)
}

type serverMetrics struct {
	up, connections, maxConnections, oldestTransaction, bytes prometheus.Gauge
}

func newServerMetrics(m maker) serverMetrics {
	return serverMetrics{
		up:                m.gauge("postgres_up", "1 while Postgres answers the leading scheduler."),
		connections:       m.gauge("postgres_connections_used", "Connections of clients that Postgres has, everybody's."),
		maxConnections:    m.gauge("postgres_connections_max", "Connections that Postgres takes (max_connections)."),
		oldestTransaction: m.gauge("postgres_oldest_transaction_seconds", "Age of the oldest transaction that is open; 0 = none is."),
		bytes:             m.gauge("postgres_database_bytes", "Size of the database on disk."),
	}
}

func (m *serverMetrics) reset() {
	for _, gauge := range []prometheus.Gauge{m.up, m.connections, m.maxConnections, m.oldestTransaction, m.bytes} {
		gauge.Set(0)
	}
}

// measureServer asks Postgres about itself.
func (s *Scheduler) measureServer(ctx context.Context) error {
	m := &s.metrics.server
	server, err := s.queries.Server(ctx)
	if err != nil {
		m.up.Set(0)
		return fmt.Errorf("ask Postgres about itself: %w", err)
	}
	m.up.Set(1)
	m.connections.Set(float64(orZero(server.Connections)))
	m.maxConnections.Set(float64(orZero(server.MaxConnections)))
	m.oldestTransaction.Set(orZero(server.OldestTransaction))
	m.bytes.Set(float64(orZero(server.Bytes)))
	return nil
}

// orZero reads a column of a system view; sqlc cannot tell that it is never null.
func orZero[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}
