package api_test

import (
	"fmt"
	"net/http"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// worker is one more API on the world's database, which works off operations when it is told to.
func (w *world) worker() *api.API {
	w.Helper()
	key, err := secret.NewKey()
	require.NoError(w, err)
	cfg := api.Config{Secrets: config.Secrets{SecretsKey: key}, Rate: 10_000, Burst: 10_000, RequestSeconds: ample, MaxConnections: 100, MaxWatchers: 100}
	cfg.DatabaseURL, cfg.NATSURL = w.url, "nats://127.0.0.1:1" // nobody is there
	pool, err := postgres.Open(w.Context(), w.url, "echomind-api", 4, postgres.As("echomind_api"))
	require.NoError(w, err)
	w.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(testkit.Logger(w.T)))
	require.NoError(w, err)
	a.Unhurried()
	return a
}

// hurry has nothing of operations wait.
func (w *world) hurry() {
	w.Helper()
	w.exec(`UPDATE operations SET next_at = clock_timestamp() WHERE next_at IS NOT NULL`)
	w.exec(`UPDATE operation_batches SET after = '-infinity'`)
}

// batch has a replica do a batch, and says whether there was one.
func (w *world) batch(of *api.API) bool {
	w.Helper()
	w.hurry()
	worked, err := of.WorkBatch(w.Context())
	require.NoError(w, err)
	return worked
}

// finish has a replica work until all operations have ended.
func (w *world) finish(of *api.API) {
	w.Helper()
	for range 1000 {
		if one[int](w, `SELECT count(*) FROM operations WHERE ended_at IS NULL`) == 0 {
			return
		}
		w.batch(of)
	}
	require.Fail(w, "operations do not end")
}

// connectors adds some of user 7, and returns the number of the first.
func (w *world) connectors(n int) int32 {
	w.Helper()
	return one[int32](w, `WITH added AS (INSERT INTO connectors (name, type, user_id) SELECT 'Source ' || i, 'web', 7 FROM generate_series(1, $1) i RETURNING id) SELECT min(id) FROM added`, n)
}

func bulkOf(action string, filter map[string]any) map[string]any {
	if filter == nil {
		filter = map[string]any{}
	}
	return map[string]any{"action": action, "filter": filter}
}

// previews asks what an operation would be done to.
func (c caller) previews(action string, filter map[string]any) map[string]any {
	c.Helper()
	r := c.do("POST", "/operations/preview", bulkOf(action, filter))
	require.Equal(c, http.StatusOK, r.status, r.text)
	return r.body
}

// asks confirms a preview.
func (c caller) asks(action string, filter map[string]any, confirm any, headers ...string) reply {
	c.Helper()
	body := bulkOf(action, filter)
	body["confirm"] = confirm
	return c.do("POST", "/operations", body, headers...)
}

// begins previews and confirms, and returns where the operation is.
func (c caller) begins(action string, filter map[string]any, headers ...string) string {
	c.Helper()
	r := c.asks(action, filter, c.previews(action, filter)["confirm"], headers...)
	require.Equal(c, http.StatusAccepted, r.status, r.text)
	path := fmt.Sprintf("/operations/%v", r.body["id"])
	require.Equal(c, "/api/v1"+path, r.header.Get("Location"))
	return path
}

// stands requires what an operation says of itself.
func (c caller) stands(path string, want map[string]any) map[string]any {
	c.Helper()
	got := c.get(path)
	for name, value := range want {
		require.EqualValues(c, value, got[name], "%s of %v", name, got)
	}
	return got
}
