package observability_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/observability"
	"github.com/echomind/sync/testonly/testkit"
)

const dashboards = "../../helm/echomind/files/dashboards"

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func TestTheDashboardFilesAreCurrent(t *testing.T) {
	var names []string
	for _, d := range observability.Dashboards() {
		want, err := d.JSON()
		require.NoError(t, err)
		names = append(names, d.UID+".json")
		have, err := os.ReadFile(filepath.Join(dashboards, d.UID+".json"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "run make generate")
	}
	entries, err := os.ReadDir(dashboards)
	require.NoError(t, err)
	for _, e := range entries {
		require.Contains(t, names, e.Name())
	}
}

// Grafana's requirements of a dashboard, as far as they can be checked without Grafana.
func TestADashboardIsWhatGrafanaReads(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range observability.Dashboards() {
		text, err := d.JSON()
		require.NoError(t, err)
		var page struct {
			UID           string
			SchemaVersion int
			Templating    struct{ List []struct{ Name, Type string } }
			Panels        []struct {
				ID                       int
				Type, Title, Description string
				GridPos                  struct{ X, Y, W, H int }
				Datasource               struct{ Type, UID string }
				Targets                  []struct{ RefID, Expr, RawSQL string }
				FieldConfig              struct {
					Defaults struct {
						Thresholds struct{ Steps []struct{ Value *float64 } }
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &page))
		require.False(t, uids[page.UID])
		require.LessOrEqual(t, len(page.UID), 40)
		uids[page.UID] = true
		require.Equal(t, "datasource", page.Templating.List[0].Type)
		taken, ids := map[[2]int]bool{}, map[int]bool{}
		for _, p := range page.Panels {
			require.False(t, ids[p.ID], "%s: panel %d is there twice", page.UID, p.ID)
			ids[p.ID] = true
			require.NotEmpty(t, p.Title)
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.False(t, taken[[2]int{x, y}], "%s: %s lies on another panel", page.UID, p.Title)
					taken[[2]int{x, y}] = true
				}
			}
			if p.Type == "row" {
				continue
			}
			require.NotEmpty(t, p.Description, p.Title)
			require.Equal(t, "${source}", p.Datasource.UID, p.Title)
			require.NotEmpty(t, p.Targets, p.Title)
			steps := p.FieldConfig.Defaults.Thresholds.Steps
			require.Nil(t, steps[0].Value, "%s: the first step has no limit", p.Title)
			for i := 2; i < len(steps); i++ {
				require.Greater(t, *steps[i].Value, *steps[i-1].Value, p.Title)
			}
			for _, target := range p.Targets {
				require.NotEmpty(t, target.Expr+target.RawSQL, p.Title)
			}
		}
	}
}

func TestTheLedgersQueriesAnswerOnARealDatabase(t *testing.T) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, testkit.Database(t, db.Up))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	var id int
	require.NoError(t, conn.QueryRow(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('docs', 'file', 1, '{"url":"file:///srv"}', 60) RETURNING id`).Scan(&id))
	_, err = conn.Exec(ctx, `INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, picked_up_at, fetched_at,
			completed_at, status, total, stored, config_version)
		VALUES (gen_random_uuid(), $1, 'file', 'new', now(), now(), now(), now(), now(), 'completed', 0, 0, 1)`, id)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `INSERT INTO documents (connector_id, source_id, status, error, config_version) VALUES ($1, 'a.md', 'failed', 'too large', 1)`, id)
	require.NoError(t, err)

	macro := regexp.MustCompile(`\$__timeFilter\((\w+)\)`)
	asked := 0
	grant(t, conn)
	for _, d := range observability.Dashboards() {
		if !d.NeedsPostgres() {
			continue
		}
		for _, q := range d.Queries() {
			sql := macro.ReplaceAllString(q.Text, "$1 BETWEEN now() - interval '1 hour' AND now() + interval '1 hour'")
			rows, err := conn.Query(ctx, strings.ReplaceAll(sql, "$connector", "1"))
			require.NoError(t, err, sql)
			n := 0
			for rows.Next() {
				n++
				_, err := rows.Values()
				require.NoError(t, err, sql)
			}
			require.NoError(t, rows.Err(), sql)
			require.Equal(t, 1, n, sql)
			asked++
		}
	}
	require.Equal(t, 8, asked)
}

// grant becomes the role that the page of runbooks creates for Grafana. Roles belong to the whole cluster, so nothing is
// committed.
func grant(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(runbooks, "README.md"))
	require.NoError(t, err)
	_, sql, found := strings.Cut(string(page), "```sql\n")
	require.True(t, found)
	sql, _, _ = strings.Cut(sql, "```")
	_, err = conn.Exec(t.Context(), "BEGIN;"+sql+"SET LOCAL ROLE grafana")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "SAVEPOINT refused")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "SELECT config FROM connectors")
	require.ErrorContains(t, err, "permission denied", "a configuration holds secrets")
	_, err = conn.Exec(t.Context(), "ROLLBACK TO refused")
	require.NoError(t, err)
}

// People copy these queries in an incident.
func TestTheRunbooksQueriesAnswerOnARealDatabase(t *testing.T) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, testkit.Database(t, db.Up))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	pages, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	require.NoError(t, err)
	asked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, span := range regexp.MustCompile("`(SELECT [^`]+)`").FindAllStringSubmatch(string(text), -1) {
			_, err := conn.Exec(ctx, strings.ReplaceAll(span[1], "PID", "0"))
			require.NoError(t, err, "%s: %s", page, span[1])
			asked++
		}
	}
	require.Greater(t, asked, 8)
}
