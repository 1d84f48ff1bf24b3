package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

func TestWhilePostgresIsAwayTheAnswerIs503AndSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	server, url := testkit.PrivatePostgres(t, db.Up)
	cfg := api.Config{Rate: 1000, Burst: 1000, RequestSeconds: ample}
	pool, err := postgres.Open(t.Context(), url, "echomind-api", 2)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	w := &world{T: t, server: httptest.NewServer(a.Handler())}
	t.Cleanup(w.server.Close)
	w.conn, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	me := w.as(7, identity.User)
	require.NoError(t, w.conn.Close(t.Context()))
	me.get("/me")
	require.NoError(t, server.Kill())
	r := me.do("GET", "/connectors", nil)
	me.refused(503, "unavailable", r)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.NotContains(t, r.text, "127.0.0.1")
}

func TestWhilePostgresIsAwayEachPageSaysSoWith503AndWhenToComeBack(t *testing.T) {
	t.Parallel()
	server, url := testkit.PrivatePostgres(t, db.Up)
	pool, err := postgres.Open(t.Context(), url, "echomind-api", 2)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := api.New(api.Config{Rate: 1000, Burst: 1000, RequestSeconds: ample}, pool, connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	w := &world{T: t, server: httptest.NewServer(a.Handler())}
	t.Cleanup(w.server.Close)
	w.conn, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	b := w.as(7, identity.User).signedIn()
	require.NoError(t, w.conn.Close(t.Context()))
	require.Equal(t, http.StatusOK, b.get("/").status)
	require.NoError(t, server.Kill())
	for _, path := range []string{"/", "/sources/1", "/search?q=x"} {
		page := b.get(path)
		require.Equal(t, http.StatusServiceUnavailable, page.status, path)
		require.NotEmpty(t, page.header.Get("Retry-After"), path)
		require.Contains(t, page.header.Get("Content-Type"), "text/html", path)
		require.Contains(t, page.text, `role="alert"`, path)
		require.Contains(t, page.text, "database", path)
		require.NotContains(t, page.text, "127.0.0.1", path)
	}
}

func TestATokenThatAsksTooOftenIsToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.1, 3 })
	me, other := w.as(7, identity.User), w.as(7, identity.User)
	for range 3 {
		me.get("/me")
	}
	r := me.do("GET", "/me", nil)
	me.refused(429, "too-many-requests", r)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	other.get("/me")
}

func TestARowThatSomebodyHoldsIsAConflictAndNothingIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	tx, err := w.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM connectors FOR UPDATE`)
	require.NoError(t, err)
	r := me.try(identity.DisableConnector, c)
	require.Equal(t, http.StatusConflict, r)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, "PENDING", me.get("/connectors")["connectors"].([]any)[0].(map[string]any)["status"])
}

func TestItServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	cfg := served(t, testkit.Database(t, db.Up), "nats://127.0.0.1:1")
	ctx, stop := context.WithCancel(t.Context())
	addresses, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- api.RunAnd(ctx, cfg, connect.NewProcess(testkit.Logger(t)), func(addr string) { addresses <- addr })
	}()
	select {
	case addr := <-addresses:
		r, err := http.Get("http://" + addr + "/api/v1/openapi.json")
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, http.StatusOK, r.StatusCode)
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal(errors.New("it does not serve"))
	}
	stop()
	require.NoError(t, <-ended)
}
