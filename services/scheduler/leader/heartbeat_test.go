package leader

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/testonly/testkit"
)

func TestASessionThatDoesNotHoldTheLockIsNoLeaders(t *testing.T) {
	t.Parallel()
	candidate := NewCandidate(slog.New(slog.DiscardHandler), prometheus.NewGauge(prometheus.GaugeOpts{Name: "leader"}))
	p := &postgres{candidate, testkit.Postgres(t), DefaultPace}
	conn, err := p.elected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close(conn)
	if err := p.heartbeat(t.Context(), conn); err != nil {
		t.Errorf("the holder is told %v", err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`); err != nil {
		t.Fatal(err)
	}
	// Another key, and a pair with the same halves, are other locks.
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock(1), pg_advisory_lock(($1::bigint >> 32)::int, ($1::bigint & 4294967295)::int)`,
		int64(lockKey)); err != nil {
		t.Fatal(err)
	}
	if err := p.heartbeat(t.Context(), conn); !errors.Is(err, errPooled) {
		t.Errorf("who does not hold the lock is told %v", err)
	}
}
