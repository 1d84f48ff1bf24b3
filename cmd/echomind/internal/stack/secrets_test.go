package stack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/testonly/testkit"
)

// Everything here that nobody may ever read again.
const (
	clientSecret   = "plain-client-secret"
	refreshToken   = "plain-refresh-token"
	revokedToken   = "plain-revoked-token"
	rotatedToken   = "plain-rotated-token"
	accessToken    = "plain-access-token"
	downloadTicket = "plain-download-ticket"
	allSecrets     = "plain-"
)

// microsoft is as much of the provider as one drive with a file that can be read, and two that cannot. It repeats secrets
// where it can.
func microsoft(t *testing.T) *httptest.Server {
	t.Helper()
	var s *httptest.Server
	var mu sync.Mutex
	rotated := 0
	say := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	file := func(id, path string, size int) map[string]any {
		return map[string]any{
			"id": id, "name": id + ".md", "eTag": "e" + id, "cTag": "c" + id, "size": size, "file": map[string]any{"mimeType": "text/markdown"},
			"webUrl": s.URL + "/web/" + id, "parentReference": map[string]any{"id": "root"},
			"@microsoft.graph.downloadUrl": s.URL + path + "?tempauth=" + downloadTicket,
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /common/oauth2/v2.0/token", func(w http.ResponseWriter, r *http.Request) {
		given := r.PostFormValue("refresh_token")
		if given == revokedToken {
			say(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": given + " of " + r.PostFormValue("client_secret") + " is revoked"})
			return
		}
		mu.Lock()
		defer mu.Unlock()
		rotated++
		say(w, http.StatusOK, map[string]any{
			"access_token": accessToken, "token_type": "Bearer", "expires_in": 3600, "refresh_token": fmt.Sprintf("%s-%d", rotatedToken, rotated),
		})
	})
	mux.HandleFunc("GET /v1.0/me/drive", func(w http.ResponseWriter, _ *http.Request) { say(w, 200, map[string]any{"id": "d"}) })
	mux.HandleFunc("GET /v1.0/drives/d/root", func(w http.ResponseWriter, _ *http.Request) {
		say(w, 200, map[string]any{"id": "root", "root": map[string]any{}, "folder": map[string]any{}})
	})
	delta := func(w http.ResponseWriter, _ *http.Request) {
		say(w, 200, map[string]any{
			"value":            []any{file("good", "/file", 24), file("gone", "/missing", 24), file("turns", "/round", 24)},
			"@odata.deltaLink": s.URL + "/v1.0/drives/d/root/delta?token=1",
		})
	}
	mux.HandleFunc("GET /v1.0/drives/d/root/delta", delta)
	mux.HandleFunc("GET /v1.0/drives/d/items/root/delta", delta)
	mux.HandleFunc("GET /v1.0/drives/d/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		say(w, 200, file(r.PathValue("id"), map[string]string{"gone": "/missing"}[r.PathValue("id")]+map[string]string{"turns": "/round"}[r.PathValue("id")], 24))
	})
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "# Plan\n\nZebras run home.") })
	mux.HandleFunc("GET /missing", func(w http.ResponseWriter, r *http.Request) {
		say(w, 403, map[string]any{"error": map[string]string{"code": "accessDenied", "message": "not with " + r.URL.String()}})
	})
	mux.HandleFunc("GET /round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) })
	s = httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestNoSecretIsEverInALogAMessageAMetricOrATable(t *testing.T) {
	ctx, provider, dir := context.Background(), microsoft(t), dataFolder(t)
	logs, messages, printed := &recorder{}, &recorder{}, &recorder{}

	conn, stop := run(t, dir, t.TempDir(), func(cfg *stack.Config) {
		cfg.Log = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg.HTTPAddr = "127.0.0.1:0"
		cfg.Connector.MicrosoftGraphURL, cfg.Connector.MicrosoftLoginURL = provider.URL+"/v1.0", provider.URL
		cfg.Connector.MicrosoftClientID, cfg.Connector.MicrosoftClientSecret = "app", clientSecret
	})
	defer stop()
	info, err := devstack.Discover(dir)
	require.NoError(t, err)
	overhear(t, info.NATSURL, messages, func(m *nats.Msg) []byte { return m.Data })

	add := func(config string) {
		_, _ = io.WriteString(printed, echomind(t, dir, "connectors", "add", "--name", "drive", "--type", "onedrive", "--user", "1", "--refresh", "1h",
			"--config", config, "-o", "json"))
	}
	add(`{"refresh_token":"` + refreshToken + `"}`)
	add(`{"client_id":"own","client_secret":"` + clientSecret + `","refresh_token":"` + revokedToken + `"}`)
	var good, bad int // system jobs have numbers, too
	require.NoError(t, conn.QueryRow(ctx, `SELECT min(id), max(id) FROM connectors WHERE scope <> 'system'`).Scan(&good, &bad))
	require.Equal(t, "completed", verdict(t, conn, good), logs)
	require.Equal(t, "failed", verdict(t, conn, bad))
	_, _ = io.WriteString(printed, echomind(t, dir, "secrets", "rotate"))
	echomind(t, dir, "connectors", "trigger", strconv.Itoa(good))
	testkit.Eventually(t, 60*time.Second, func() error {
		var n int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND status IN ('completed', 'skipped')`, good).Scan(&n); err != nil || n < 2 {
			return fmt.Errorf("%d runs: %w", n, err)
		}
		return nil
	})
	hits, err := search(t, conn, "zebras")
	require.NoError(t, err)
	require.NotEmpty(t, hits, "it was a run that did something")

	_, _ = io.WriteString(printed, prints(t, dir, fmt.Sprintf("connectors get %d", good), fmt.Sprintf("connectors get %d -o json", bad), "connectors list -o json",
		fmt.Sprintf("runs %d", good), fmt.Sprintf("runs %d -o json", bad), fmt.Sprintf("why %d", good), fmt.Sprintf("why %d -o json", bad)))
	exposed := metrics(t, info.HTTPAddr)
	tables := dump(t, conn)
	require.Contains(t, tables, "enc:v1:")
	require.Contains(t, tables, fmt.Sprintf("`echomind connectors update %d --config @FILE`: REDACTED of REDACTED is revoked", bad))
	require.Contains(t, messages.String(), "enc:v1:", "the message that asks for the sync carries the envelope")
	require.Contains(t, exposed, "connector_provider_requests_total")
	requireNowhere(t, allSecrets, map[string]string{
		"logs": logs.String(), "messages": messages.String(), "metrics": exposed, "tables": tables, "output": printed.String(),
	})
	require.NotContains(t, printed.String(), "enc:v1:")
}

// dump is every row of every table as text.
func dump(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range names {
		rows, err := conn.Query(t.Context(), `SELECT t::text FROM `+name+` t`)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		all.WriteString(name + ":\n" + strings.Join(lines, "\n") + "\n")
	}
	return all.String()
}
