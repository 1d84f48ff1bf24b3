//go:build !race

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// disabled makes runs that have ended.
func (w *world) ended(connector int32, n int) {
	w.Helper()
	for range n {
		w.exec(`SELECT moves.trigger_sync($1)`, connector)
		w.exec(`SELECT moves.cancel($1)`, movestest.Claim(w, w.conn, connector))
	}
}

func TestRunsComeInPagesOpenOnesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	var ids []int32
	for n := range 3 {
		c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
		w.exec(`SELECT moves.cancel($1)`, c.run)
		w.ended(c.id, 2+n)
		ids = append(ids, c.id)
	}
	other := w.something(identity.Ownership{UserID: 8, Scope: "user"})
	w.ended(ids[0], 1)
	w.exec(`SELECT moves.trigger_sync($1)`, ids[2])
	open := movestest.Claim(w, w.conn, ids[2])

	all := func(path string) []string {
		runs, _ := me.pagesOfRuns(path)
		return runs
	}
	want := one[[]string](w, `SELECT array_agg(id::text ORDER BY completed_at IS NOT NULL, completed_at DESC, id DESC) FROM scheduler_runs WHERE connector_id <> $1`, other.id)
	require.Len(t, want, 14)
	require.Equal(t, open.String(), want[0])
	for _, size := range []int{1, 4, 500} {
		require.Equal(t, want, all(fmt.Sprintf("/runs?page_size=%d", size)), size)
	}
	require.Equal(t, want[1:], all("/runs?page_size=3&status=superseded"))
	require.Equal(t, want[:1], all("/runs?page_size=3&status=running&type=file"))
	require.Empty(t, all("/runs?page_size=3&type=web"))
	require.Equal(t, one[[]string](w, `SELECT array_agg(id::text ORDER BY started_at DESC, id DESC) FROM scheduler_runs WHERE connector_id = $1`, ids[2]),
		all(fmt.Sprintf("/connectors/%d/runs?page_size=2", ids[2])))
	me.refused(404, "not-found", me.do("GET", fmt.Sprintf("/connectors/%d/runs", other.id), nil))
	me.refused(404, "not-found", me.do("GET", "/runs/"+other.run.String(), nil))
}

// pagesOfRuns are the runs of all pages, and how many pages these are.
func (c caller) pagesOfRuns(path string) (runs []string, pages int) {
	c.Helper()
	for token := ""; ; {
		page := c.get(path + token)
		pages++
		for _, r := range page["runs"].([]any) {
			runs = append(runs, r.(map[string]any)["id"].(string))
		}
		next, more := page["next_page_token"].(string)
		if !more {
			return runs, pages
		}
		token = "&page_token=" + next
	}
}

func TestRunsAreThoseThatEndedInATimeAndNameTheirConnector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, super := w.as(7, identity.User), w.as(1, identity.Superadmin)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	w.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), $1, 'web', 'manual', m.at, m.at, m.at, 'skipped', 1 FROM generate_series(1, 9) n, LATERAL (SELECT make_timestamptz(2026, 1, n, 0, 0, 0, 'UTC') AS at) m`, c.id)
	days := func(path, query string) (found []string) {
		for token := ""; ; {
			page := me.get(path + "?page_size=2" + query + token)
			for _, r := range page["runs"].([]any) {
				run := r.(map[string]any)
				require.NotEmpty(t, run["connector_name"])
				day, ended := run["completed_at"].(string)
				if !ended {
					day = "open"
				}
				found = append(found, strings.TrimSuffix(strings.TrimPrefix(day, "2026-01-0"), "T00:00:00Z"))
			}
			next, more := page["next_page_token"].(string)
			if !more {
				return found
			}
			token = "&page_token=" + next
		}
	}
	for query, want := range map[string]string{
		"":                            "open 9 8 7 6 5 4 3 2 1",
		"&since=2026-01-07T00:00:00Z": "open 9 8 7",
		"&until=2026-01-04T00:00:00Z": "3 2 1",
		"&since=2026-01-03T00:00:00%2B00:00&until=2026-01-06T00:00:00Z":         "5 4 3",
		"&since=2026-01-03T00:00:00Z&until=2026-01-06T00:00:00Z&status=running": "",
		"&since=2027-01-03T00:00:00Z&until=2027-01-06T00:00:00Z":                "",
	} {
		for _, path := range []string{"/runs", fmt.Sprintf("/connectors/%d/runs", c.id)} {
			require.Equal(t, strings.Fields(want), append([]string{}, days(path, query)...), path+query)
		}
	}
	first := me.get("/runs?page_size=4")["next_page_token"].(string)
	narrowed := me.get("/runs?page_size=9&until=2026-01-03T00:00:00Z&page_token=" + first)["runs"].([]any)
	require.Len(t, narrowed, 2, "a time may be narrowed from page to page")
	me.refused(422, "invalid", me.do("GET", "/runs?since=2026-01-03T00:00:00Z&until=2026-01-03T00:00:00Z", nil))
	me.refused(422, "invalid", me.do("GET", "/runs?since=yesterday", nil))
	name := one[string](w, `SELECT name FROM connectors WHERE id = $1`, c.id)
	require.Equal(t, name, me.get("/runs/" + c.run.String())["connector_name"])
	require.Equal(t, name, me.do("POST", "/runs/"+c.run.String()+"/cancel", map[string]any{}).body["connector_name"])
	w.exec(`DELETE FROM connectors`)
	require.Nil(t, super.get("/runs/" + c.run.String())["connector_name"])
}

// Runs 4990 to 5010 began at the same moment, where the first page ends.
func TestRunsOfAConnectorWithOneStatusAreLookedForInABoundedPartOfTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	w.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), c.id, 'web', 'manual', m.at, m.at, m.at, CASE WHEN n IN (1, 4999, 5000, 5001, 10002, 12000) THEN 'failed' ELSE 'completed' END, c.config_version
		FROM connectors c, generate_series(1, 12000) n, LATERAL (SELECT date '2026-01-01' - make_interval(secs => CASE WHEN n BETWEEN 4990 AND 5010 THEN 5000 ELSE n END) AS at) m
		WHERE c.id = $1`, c.id)
	path := fmt.Sprintf("/connectors/%d/runs?page_size=2&status=", c.id)
	found, _ := me.pagesOfRuns(path + "failed")
	require.Equal(t, one[[]string](w, `SELECT array_agg(id::text ORDER BY started_at DESC, id DESC) FROM runs WHERE status = 'failed'`), found)
	found, pages := me.pagesOfRuns(path + "missed")
	require.Empty(t, found)
	require.Equal(t, 3, pages, "12,000 runs, of which a page looks at 5,000")
	found, pages = me.pagesOfRuns(path + "running")
	require.Equal(t, []string{c.run.String()}, found)
	require.Equal(t, 1, pages)
}

func TestARunIsCancelledOnceAndTheAuditSaysByWhom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	path := "/runs/" + c.run.String()
	require.Equal(t, "running", me.get(path)["status"])
	for range 2 {
		r := me.do("POST", path+"/cancel", nil)
		require.Equal(t, []any{"superseded", "cancelled", "cancelled by user 7"}, []any{r.body["status"], r.body["reason"], r.body["error_message"]}, r.text)
	}
	require.Equal(t, "user 7", one[string](w, `SELECT string_agg(person, ',') FROM audit WHERE action = 'runs.cancel' AND object_id = $1`, c.run.String()))
	w.exec(`SELECT moves.trigger_sync($1)`, c.id)
	run := movestest.Claim(w, w.conn, c.id)
	w.exec(`SELECT moves.disable($1)`, c.id)
	me.refused(409, "conflict", me.do("POST", "/runs/"+run.String()+"/cancel", nil))
	// Who knows the try of a run speaks for it.
	require.NotContains(t, fmt.Sprint(me.get("/runs")), "try_id")
}

// The worker may be another team's.
func TestWhatAWorkerSaysIsShownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	w.exec(`SELECT moves.cancel($1, 'https://bob:hunter2@drive.example/ is away')`, c.run)
	me := w.as(7, identity.User)
	const shown = "https://REDACTED@drive.example/ is away"
	require.Equal(t, shown, me.get("/runs/" + c.run.String())["error_message"])
	w.exec(`SELECT moves.disable($1, 'https://bob:hunter2@drive.example/ is away')`, c.id)
	require.Equal(t, shown, me.get(fmt.Sprintf("/connectors/%d", c.id))["status_message"])
}
