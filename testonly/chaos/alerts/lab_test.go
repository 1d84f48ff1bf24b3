//go:build alerts

package alerts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/world"
	"github.com/echomind/sync/testonly/testkit"
)

// programs names the folder of the harness's programs: make test-alerts sets it.
const programs = "ALERTS_PROGRAMS"

// Types of connectors. What lost has no worker for is purged, and capped may have one in flight, which nobody picks up.
const (
	typeWell    = "well"
	typeFailing = "failing"
	typeCrash   = "crash"
	typeHang    = "hang"
	typeLost    = "lost"
	typeCapped  = "capped"
)

// nobody serves this address.
const nobody = "127.0.0.1:1"

// later are the processes that only a trial starts.
var later = []string{"rogue", "indexer"}

// lab is a world under a Prometheus.
type lab struct {
	*world.World
	t          *testing.T
	prometheus prometheus
	// api is where the API is served, and token one that it knows.
	api, token string
}

func system(api string) []world.Program {
	scheduler := func(name, election string) world.Program {
		return world.Program{Name: name, Binary: "scheduler", Env: []string{
			"SCHEDULER_LEADER_ELECTION=" + election, "SCHEDULER_CHECK_INTERVAL_SECONDS=1", "SCHEDULER_WATCH_INTERVAL_SECONDS=1",
		}}
	}
	worker := func(name, types string, slots int) world.Program {
		return world.Program{Name: name, Binary: "synthetic", Env: []string{"SYNTHETIC_TYPES=" + types, fmt.Sprintf("WORKER_SLOTS=%d", slots)}}
	}
	return []world.Program{
		scheduler("scheduler-1", "postgres"), scheduler("scheduler-2", "postgres"), scheduler("rogue", "none"),
		{Name: "chunker", Binary: "chunker"}, {Name: "connector", Binary: "connector"}, {Name: "semantic", Binary: "semantic"},
		// Five requests a second of a token, and of tokens that nobody has.
		{Name: "api", Binary: "api", Env: []string{"API_ADDR=" + api, "API_RATE=5", "API_BURST=10"}},
		{Name: "indexer", Binary: "semantic", Env: []string{"QDRANT_URL=http://" + nobody}},
		worker("synthetic", typeWell+","+typeFailing, 8), worker("crasher", typeCrash, 2), worker("hanger", typeHang, 4),
	}
}

func open(t *testing.T) *lab {
	t.Helper()
	bin := os.Getenv(programs)
	require.NotEmpty(t, bin, "%s names no folder: run make test-alerts", programs)
	ctx := context.Background()
	dir, err := campaign.Place(os.TempDir())
	require.NoError(t, err)
	port, err := loopback.Port(0)
	require.NoError(t, err)
	api := loopback.Address(port)
	w, err := world.Open(ctx, world.Config{
		Bin: bin, Dir: dir, Programs: system(api), Env: []string{"WORKER_LEASE_SECONDS=3"}, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		require.NoError(t, w.Close())
		if t.Failed() {
			t.Log("the logs are in", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	require.NoError(t, err)
	l := &lab{World: w, t: t, api: api}
	for name, places := range map[string]int{typeWell: 0, typeFailing: 0, typeCrash: 0, typeHang: 0, typeLost: 0, typeCapped: 1} {
		l.sql(`INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ($1, $2)`, name, places)
	}
	for _, p := range w.Processes {
		if !contains(later, p.Name) {
			p.Start(ctx)
		}
	}
	l.prometheus = watch(t, dir, w.Processes)
	return l
}

func (l *lab) sql(statement string, args ...any) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := l.Pool.Exec(ctx, statement, args...)
	require.NoError(l.t, err)
}

// add makes n connectors of a synthetic source.
func (l *lab) add(connectorType string, n int, more map[string]any) {
	l.t.Helper()
	for i := range n {
		config := map[string]any{"seed": i, "documents": 3, "changes": 1, "milliseconds": 100, "mode": "delta"}
		for key, value := range more {
			config[key] = value
		}
		l.insert(connectorType, config)
	}
}

func (l *lab) insert(connectorType string, config map[string]any) {
	l.t.Helper()
	text, err := json.Marshal(config)
	require.NoError(l.t, err)
	l.sql(`INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes, max_retries) VALUES ($1, $1, 1, $2, 60, 5)`, connectorType, text)
}

// work gives every service something to measure.
func (l *lab) work() {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(filepath.Join(l.Files, "a.md"), []byte("# A\n\nZebras run home.\n"), 0o600))
	l.insert("file", map[string]any{"url": (&url.URL{Scheme: "file", Path: l.Files}).String()})
	l.Site.Put("/docs/", "<html><head><title>Docs</title></head><body><main><p>Zebras run home.</p></main></body></html>")
	l.insert("web", map[string]any{"url": l.Site.URL("/docs/")})
	l.add(typeWell, 10, nil)
	l.add(typeWell, 1, map[string]any{"milliseconds": 5000})                  // long enough for a lease to be renewed
	l.add(typeFailing, 1, map[string]any{"trouble": "permanent", "every": 1}) // that one of many fails is no alert
	l.signIn()
	l.eventually(60*time.Second, `SELECT count(*) >= 13 FROM connectors WHERE last_sync_at IS NOT NULL`)
}

// eventually waits for a query to say yes.
func (l *lab) eventually(within time.Duration, query string) {
	l.t.Helper()
	testkit.Eventually(l.t, within, func() error {
		var yes bool
		if err := l.Pool.QueryRow(context.Background(), query).Scan(&yes); err != nil || !yes {
			return fmt.Errorf("not yet: %s %w", query, err)
		}
		return nil
	})
}

// named is one process.
func (l *lab) named(name string) *world.Process { return l.Named(name)[0] }
