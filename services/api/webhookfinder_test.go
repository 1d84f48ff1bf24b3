package api_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/webhooks"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// behindProxy is a replica that reaches Postgres through a proxy.
func (w *telling) behindProxy() (*faultproxy.Proxy, *webhooks.Service) {
	w.Helper()
	at, err := url.Parse(w.url)
	require.NoError(w, err)
	proxy, err := faultproxy.Start(at.Host)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, proxy.Close()) })
	far, err := proxy.URL(w.url)
	require.NoError(w, err)
	pool, err := postgres.Open(w.Context(), far, "echomind-api", 1, postgres.As("echomind_api"))
	require.NoError(w, err)
	w.Cleanup(pool.Close)
	s := webhooks.New(webhooks.Config{}, pool, nil, prometheus.NewRegistry(), testkit.Logger(w.T))
	w.Cleanup(s.Close)
	return proxy, s
}

// Connectors that the finder holds are free again without its client: what it has found is committed, though the client hears of nothing.
func TestAPageOfTheFinderIsCommittedThoughItsProcessVanishesInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	proxy, vanishing := w.behindProxy()
	id := w.source()
	w.exec(`UPDATE connectors SET fresh_within_minutes = 60 WHERE id = $1`, id)
	require.NoError(t, vanishing.Look(t.Context())) // its statements are prepared
	movestest.Force(t, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp() - interval '2 hours' WHERE id = $1`, id)
	w.exec(`UPDATE webhook_looks SET phase = 1, after_type = 'web', after_until = '-infinity', after_id = 0, next_at = '-infinity'`)
	proxy.Withhold(func(_ net.Conn, block []byte) bool { return bytes.Contains(block, []byte("stmtcache_")) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- vanishing.Look(ctx) }()
	testkit.Eventually(t, 30*time.Second, func() error {
		if one[int](w.world, `SELECT count(*) FROM status_events WHERE connector_id = $1 AND freshness = 'stale'`, id) == 0 {
			return errors.New("nothing is committed")
		}
		return nil
	})
	w.exec(`SELECT moves.trigger_sync($1)`, id)
	cancel()
	require.Error(t, <-ended)
}
