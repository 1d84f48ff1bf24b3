package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// page is what `runs` answers for all connectors.
type page struct {
	Runs []struct {
		ID, Type, Status string
		ConnectorID      int     `json:"connector_id"`
		ConnectorName    *string `json:"connector_name"`
		CompletedAt      *string `json:"completed_at"`
	}
	Next         *string
	LookedBackTo *string `json:"looked_back_to"`
}

func (u terminal) page(args ...string) (p page) {
	u.t.Helper()
	u.json(&p, append([]string{"runs"}, args...)...)
	return p
}

// connectors of a page's runs with their verdicts, in its order.
func (p page) said() []string {
	said := make([]string, len(p.Runs))
	for i, r := range p.Runs {
		said[i] = fmt.Sprint(r.ConnectorID, " ", r.Status)
	}
	return said
}

// fleet is three connectors of two users and two types with the runs of a day: number 1 is docs, 2 is site, and 9 was deleted.
func fleet(t *testing.T) terminal {
	t.Helper()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	u.add("--name", "site", "--type", "web", "--user", "7", "--config", site, "--refresh", "manual")
	u.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, picked_up_at, completed_at, status, error_message, reason,
			missed_count, slot, config_version)
		SELECT id::uuid, connector, type, 'schedule', now() - ago - interval '12 s', now() - ago - interval '12 s',
			CASE WHEN verdict <> 'missed' THEN now() - ago - interval '10 s' END, now() - ago, verdict,
			CASE WHEN verdict = 'failed' THEN 'no such page' END, CASE WHEN verdict = 'failed' THEN 'transient failure' END,
			CASE WHEN verdict = 'missed' THEN 3 END, CASE WHEN verdict = 'missed' THEN now() - ago END, 1
		FROM (VALUES
			('0000000a-0000-4000-8000-000000000001', 1, 'file', interval '10 min', 'completed'),
			('0000000b-0000-4000-8000-000000000002', 2, 'web',  interval '20 min', 'failed'),
			('0000000c-0000-4000-8000-000000000003', 9, 'web',  interval '30 min', 'failed'),
			('0000000d-0000-4000-8000-000000000004', 2, 'web',  interval '2 h',    'failed'),
			('0000000e-0000-4000-8000-000000000005', 2, 'web',  interval '3 h',    'skipped'),
			('0000000e-0000-4000-8000-000000000006', 1, 'file', interval '4 h',    'superseded'),
			('0000000f-0000-4000-8000-000000000007', 1, 'file', interval '26 h',   'missed')) r(id, connector, type, ago, verdict)`)
	u.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		VALUES ('00000001-0000-4000-8000-000000000008', 2, 7, 'web', 'manual', now() - interval '5 h', now() - interval '5 h', now(), 1)`)
	return u
}

func TestRunsOfAllConnectorsAreTheLatestFirstOpenOnesBeforeThem(t *testing.T) {
	t.Parallel()
	empty := newTerminal(t)
	require.Contains(t, empty.succeed("runs"), "no connector was ever due")
	require.Empty(t, empty.page().Runs)
	require.Contains(t, empty.succeed("runs", "--since", "1h"), "no runs match")
	u := fleet(t)
	all := u.page()
	require.Equal(t, []string{
		"2 running", "1 completed", "2 failed", "9 failed", "2 failed", "2 skipped", "1 superseded", "1 missed",
	}, all.said())
	require.Nil(t, all.Next)
	require.Nil(t, all.LookedBackTo)
	require.Equal(t, "site", *all.Runs[0].ConnectorName)
	require.Nil(t, all.Runs[3].ConnectorName, "it is gone")
	narrow := u.succeed("runs")
	fits(t, narrow)
	require.Regexp(t, `(?m)^0000000b +2 site +\S.* +schedule +failed +12s +0 +0\n    transient failure: no such page$`, narrow)
	require.Regexp(t, `(?m)^00000001 +2 site +- +manual +running `, narrow)
	require.Regexp(t, `(?m)^0000000c +9 +\S`, narrow)
	require.Contains(t, u.succeed("runs", "-o", "wide"), "0000000b-0000-4000-8000-000000000002")
}

func TestRunsAreFilteredByVerdictTypeOwnerAndTime(t *testing.T) {
	t.Parallel()
	u := fleet(t)
	for args, said := range map[string][]string{
		"--since 1h --verdict failed": {"2 failed", "9 failed"},
		"--since 1h":                  {"2 running", "1 completed", "2 failed", "9 failed"},
		"--verdict FAILED,skipped --type web --owner 7": {"2 failed", "2 failed", "2 skipped"},
		"--verdict missed --verdict running":            {"2 running", "1 missed"},
		"--verdict running":                             {"2 running"},
		"--until 150m --since 25h":                      {"2 skipped", "1 superseded"},
		"--type file --since 1h":                        {"1 completed"},
		"--type file,web --until 1d":                    {"1 missed"},
		"--owner 1":                                     {"1 completed", "1 superseded", "1 missed"},
		"--owner 8":                                     {},
		"--since 2000-01-01T00:00:00Z --until 2001-01-01T00:00:00+01:00": {},
	} {
		require.Equal(t, said, u.page(strings.Fields(args)...).said(), args)
	}
	of := func(args ...string) (verdicts []any) {
		for _, r := range u.array(append([]string{"runs"}, args...)...) {
			verdicts = append(verdicts, r["status"])
		}
		return verdicts
	}
	require.Equal(t, []any{"failed", "failed"}, of("site", "--verdict", "failed"), "a name is taken where a number is")
	require.Equal(t, []any{"failed", "running"}, of("2", "--since", "1h"), "in the order in which they began")
	require.Equal(t, []any{"skipped"}, of("2", "--until", "150m"))
	require.Contains(t, u.succeed("runs", "2", "--verdict", "missed"), "no runs match")
	out := u.run("runs", "--type", "wiki")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, `--type "wiki" is not known: there are file,`)
	require.Contains(t, u.run("runs", "nobody").stderr, `there is no connector "nobody"`)
}

func TestEachRunIsOnOnePageOfRuns(t *testing.T) {
	t.Parallel()
	u := fleet(t)
	u.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT gen_random_uuid(), 100 + i, 7, 'web', 'new', now(), now() - interval '1 h', now(), 1 FROM generate_series(1, 4) i`)
	u.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 200 + i, 'web', 'new', now(), now(), now() - interval '15 min', 'skipped', 1 FROM generate_series(1, 9) i`)
	for _, filter := range [][]string{{}, {"--verdict", "skipped,running,failed"}} {
		whole := u.page(append(filter, "--limit", "10000")...)
		require.Nil(t, whole.Next)
		var paged page
		pages := 0
		for next := ""; ; pages++ {
			one := u.page(append([]string{"--limit", "3", "--cursor", next}, filter...)...)
			require.LessOrEqual(t, len(one.Runs), 3)
			paged.Runs = append(paged.Runs, one.Runs...)
			if one.Next == nil {
				break
			}
			next = *one.Next
		}
		require.Greater(t, pages, 4)
		require.Equal(t, whole.Runs, paged.Runs, "many began or ended at one time")
	}
	require.Regexp(t, `and more: --cursor open/\S+\n$`, u.succeed("runs", "--limit", "2"))
}

func TestARunIsShownWithAllThatTheLedgerKnowsOfIt(t *testing.T) {
	t.Parallel()
	u := fleet(t)
	shown := u.succeed("runs", "show", "0000000B")
	for _, line := range []string{
		`^run +0000000b-0000-4000-8000-000000000002$`, `^connector +2 "site"$`, `^verdict +failed$`, `^reason +transient failure$`,
		`^error +no such page$`, `^why +schedule$`, `^due +20\d\d-\d\d-\d\d \d\d:\d\d:\d\d$`, `^picked up +20.*, queued 2s$`,
		`^fetched +-, fetching so far 10s$`, `^session +0000000b-`,
	} {
		require.Regexp(t, `(?m)`+line, shown)
	}
	require.Contains(t, u.succeed("runs", "show", "0000000c"), "9, which was deleted")
	missed := u.succeed("runs", "show", "0000000f")
	require.Regexp(t, `(?m)^verdict +missed 3$`, missed)
	require.Regexp(t, `(?m)^slot +20`, missed)
	require.NotContains(t, missed, "picked up")

	open := u.object("runs", "show", "00000001-0000-4000-8000-000000000008")
	require.Equal(t, "running", open["status"])
	require.Equal(t, "site", open["connector_name"])
	require.Contains(t, open["in_flight"], "publish_error")
	require.Equal(t, []any{}, open["left_out"])
	ended := u.object("runs", "show", "0000000a")
	require.Nil(t, ended["in_flight"])
	require.InDelta(t, 2, ended["queued_seconds"], 0.001)

	out := u.run("runs", "show", "0000000e")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "several runs begin with 0000000e; give the whole id of one: 0000000e-0000-4000-8000-000000000005 (connector 2), ")
	out = u.run("runs", "show", "ffffffff")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "there is no run ffffffff, or its week was dropped")
}

func TestARunSaysWhatItLeftOut(t *testing.T) {
	t.Parallel()
	u := fleet(t)
	const try = `'00000000-0000-0000-0000-0000000000aa'`
	u.force(`UPDATE runs SET documents_failed = 2, try_id = ` + try + `, warnings = '{left out: /a}' WHERE connector_id = 1 AND status = 'completed'`)
	require.Contains(t, u.succeed("runs", "1", "-o", "wide"), "1 warning\n")
	for _, ledger := range [][]string{{"runs", "1"}, {"runs"}} {
		require.Contains(t, u.succeed(ledger...), "\n`echomind runs show 0000000a` lists its 1 warning\n", "a short ledger names the run")
	}
	require.Contains(t, u.succeed("runs", "show", "0000000a"), "the documents that failed were stored since, failed for another reason, or are gone")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, written_by, written_no, config_version) VALUES
		(1, 'a.pdf', 'failed', 'not a PDF', ` + try + `, 1, 1), (1, 'b.pdf', 'failed', 'of another run', gen_random_uuid(), 1, 1),
		(2, 'c.pdf', 'failed', 'of another connector', ` + try + `, 1, 1)`)
	shown := u.succeed("runs", "show", "0000000a")
	require.Regexp(t, `(?m)^a.pdf +not a PDF$`, shown)
	require.NotContains(t, shown, "of another")
	require.Equal(t, []any{map[string]any{"source_id": "a.pdf", "error": "not a PDF"}}, u.object("runs", "show", "0000000a")["left_out"])
}

func TestStatisticsSayHowTheRunsOfEachConnectorWent(t *testing.T) {
	t.Parallel()
	u := fleet(t)
	shown := u.succeed("runs", "stats")
	fits(t, shown)
	require.Regexp(t, `(?m)^CONNECTOR .*\n2 site +3 +0 +1 +2 +33.3% +10s +10s\n9 +1 +0 +0 +1 +0% +10s +10s\n1 docs +2 +1 +0 +0 +100% +10s +10s\nall +6 +1 +1 +3 +40% +10s +10s\n$`,
		shown)
	s := u.object("runs", "stats", "--since", "2d", "--limit", "1")
	require.Equal(t, true, s["more"])
	require.Nil(t, s["looked_back_to"])
	all := s["all"].(map[string]any)
	require.EqualValues(t, []any{6.0, 3.0, 0.4}, []any{all["runs"], all["missed_slots"], all["success_rate"]})
	require.Len(t, s["connectors"], 1)
	first := s["connectors"].([]any)[0].(map[string]any)
	require.Equal(t, []any{2.0, "site", "web", 7.0}, []any{first["connector_id"], first["connector_name"], first["type"], first["user_id"]})
	require.InDelta(t, 10, first["took_p95_seconds"], 0.001)
	require.InDelta(t, 2, first["queued_p50_seconds"], 0.001)
	require.Contains(t, u.succeed("runs", "stats", "--limit", "1"), "and more connectors: --limit 10")

	of := func(args ...string) string {
		return strings.Join(strings.Fields(u.succeed(append([]string{"runs", "stats"}, args...)...)), " ")
	}
	require.Contains(t, of("site", "2"), "P95 2 site 3 0 1 2 33.3% 10s 10s", "the same one once")
	require.NotContains(t, of("site", "2"), "all")
	require.Contains(t, of("docs", "site", "--since", "2d", "-o", "wide"), "1 docs 2 1 0 0 1 3 100% 10s 10s 2s 2s all 5 ")
	require.Contains(t, of("--since", "1h", "--type", "web"), "2 site 1 0 0 1 0% 10s 10s 9 1 ")
	require.Contains(t, of("--owner", "1"), "1 docs 2 ")
	require.NotContains(t, of("--owner", "1"), "site")
	require.Contains(t, of("--until", "23h"), "no runs ended since")
	require.Equal(t, []any{}, u.object("runs", "stats", "--owner", "8")["connectors"])
	require.Contains(t, u.run("runs", "stats", "nobody").stderr, `there is no connector "nobody"`)
}

func TestTheLedgerIsReadInTheConsolesRole(t *testing.T) {
	t.Parallel()
	u := fleet(t).as(consoleRole)
	require.Len(t, u.page("--owner", "7", "--verdict", "failed").Runs, 2)
	require.Equal(t, "running", u.object("runs", "show", "00000001")["status"])
	require.Len(t, u.object("runs", "stats")["connectors"], 3)
	require.Len(t, u.object("runs", "stats", "docs")["connectors"], 1)
}

func TestARunIsCancelledOnceAndSaysWhoAsked(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.add("--refresh", "manual")
	claim := func() string {
		u.succeed("connectors", "trigger", "1")
		u.exec(`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', 1, 'run_id', gen_random_uuid())), clock_timestamp())`)
		return u.row(`SELECT run_id::text FROM connectors`)
	}
	run := claim()
	said := u.succeed("runs", "cancel", run[:8])
	require.Equal(t, "run "+run[:8]+" of connector 1 is cancelled; `echomind why 1` tells what happens next\n", said)
	require.Contains(t, u.succeed("runs", "cancel", run), "is cancelled already; ")
	shown := u.succeed("runs", "show", run)
	require.Regexp(t, `(?m)^verdict +superseded$`, shown)
	require.Regexp(t, `(?m)^reason +cancelled$`, shown)
	require.Regexp(t, `(?m)^error +cancelled by \S+$`, shown)
	require.Regexp(t, `superseded .*\n +cancelled by \S+\n`, u.succeed("runs", "1"))
	require.Contains(t, u.succeed("why", "1"), "superseded (cancelled by ")
	require.Equal(t, "ACTIVE", u.object("connectors", "get", "1")["status"])

	run = claim()
	require.Equal(t, "superseded", u.object("runs", "cancel", run)["status"])
	run = claim()
	u.succeed("connectors", "disable", "1")
	out := u.run("runs", "cancel", run)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "run "+run[:8]+" of connector 1 has ended before: superseded")
	require.Contains(t, u.run("runs", "cancel", "ffffffff").stderr, "there is no run ffffffff")
	require.Equal(t, 2, u.run("runs", "cancel", "7").code)
}
