package stack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/testonly/testkit"
)

// ledger is how a run ended, by session.
func ledger(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	rows, err := conn.Query(context.Background(), `SELECT r.id::text, r.status FROM scheduler_runs r JOIN connectors c ON c.id = r.connector_id
		WHERE r.status <> 'running' AND c.scope <> 'system'`)
	require.NoError(t, err)
	ended := map[string]string{}
	var session, verdict string
	_, err = pgx.ForEachRow(rows, []any{&session, &verdict}, func() error { ended[session] = verdict; return nil })
	require.NoError(t, err)
	return ended
}

// Every line of every service is read, those for developers too. What the ledger says of a run, its lines say.
func TestTheLogTellsTheLifeOfEveryRunAndNamesItInEveryLine(t *testing.T) {
	root, logs, provider := writeDocs(t, 3), &recorder{}, microsoft(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, "broken.pdf"), []byte("%PDF-1.7 and nothing more"), 0o644))
	site := httptest.NewServer(http.FileServer(http.Dir(root)))
	defer site.Close()
	dir := dataFolder(t)
	conn, stop := run(t, dir, root, func(cfg *stack.Config) {
		cfg.Log = telemetry.Logger(logs, "json", slog.LevelDebug)
		cfg.Chunker.AllowCIDRs = []string{"127.0.0.0/8", "::1/128"}
		cfg.Connector.MicrosoftGraphURL, cfg.Connector.MicrosoftLoginURL = provider.URL+"/v1.0", provider.URL
		cfg.Connector.MicrosoftClientID, cfg.Connector.MicrosoftClientSecret = "app", clientSecret
	})
	folder := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	gone := insert(t, conn, "file", map[string]any{"url": "file://" + root + "/none"})
	pages := insert(t, conn, "web", map[string]any{"url": site.URL})
	echomind(t, dir, "connectors", "add", "--name", "drive", "--type", "onedrive", "--user", "1", "--refresh", "1h",
		"--config", `{"refresh_token":"`+refreshToken+`"}`)
	var drive int
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT id FROM connectors WHERE name = 'drive'`).Scan(&drive))
	for id, want := range map[int]string{folder: "completed", gone: "failed", pages: "completed", drive: "completed"} {
		require.Equal(t, want, verdict(t, conn, id))
	}
	echomind(t, dir, "connectors", "trigger", fmt.Sprint(folder))
	testkit.Eventually(t, 60*time.Second, func() error {
		for _, verdict := range ledger(t, conn) {
			if verdict == "skipped" && strings.Contains(logs.String(), `"event":"skipped"`) {
				return nil
			}
		}
		return fmt.Errorf("nothing was skipped")
	})
	ended := ledger(t, conn)
	stop()

	told := map[string][]string{}
	for text := range strings.Lines(logs.String()) {
		var line struct {
			Level, Event, Session, Type string
			Connector                   int
		}
		require.NoError(t, json.Unmarshal([]byte(text), &line), text)
		if line.Session == "" && line.Connector == 0 {
			require.NotContains(t, []string{"triggered", "started", "completed", "skipped", "failed"}, line.Event, text)
			continue
		}
		require.NotEmpty(t, line.Session, text)
		require.NotZero(t, line.Connector, text)
		require.NotEmpty(t, line.Type, text)
		require.NotEqual(t, "unknown", line.Type, text)
		if line.Event != "" {
			require.NotEqual(t, "DEBUG", line.Level, "a person who runs it sees the life of a run")
			told[line.Session] = append(told[line.Session], line.Event)
		}
	}
	require.Len(t, ended, 5)
	for session, verdict := range ended {
		require.ElementsMatch(t, []string{"triggered", "started", verdict}, told[session])
	}
}
