package api_test

import (
	"net/http/httptest"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// replica is another API on the same database, without the key for secrets.
func (w *world) replica(change ...func(*api.Config)) *world {
	w.Helper()
	cfg := api.Config{Rate: 10_000, Burst: 10_000, RequestSeconds: ample, MaxConnections: 100, MaxWatchers: 100}
	cfg.DatabaseURL, cfg.NATSURL = w.url, "nats://127.0.0.1:1" // nobody is there
	for _, c := range change {
		c(&cfg)
	}
	pool, err := postgres.Open(w.Context(), cfg.DatabaseURL, "echomind-api", 4, postgres.As("echomind_api"))
	require.NoError(w, err)
	w.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(testkit.Logger(w.T)))
	require.NoError(w, err)
	server := httptest.NewServer(a.Handler())
	w.Cleanup(server.Close)
	return &world{T: w.T, url: w.url, server: server, conn: w.conn, api: a}
}
