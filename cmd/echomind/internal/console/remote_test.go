package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/testkit"
)

func TestEachRunIsOnOnePageOfRunsThroughAServer(t *testing.T) {
	u := fleet(t).withStreams().fromAway()
	u.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT gen_random_uuid(), 100 + i, 7, 'web', 'new', now(), now() - interval '1 h', now(), 1 FROM generate_series(1, 4) i`)
	u.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 200 + i, 'web', 'new', now(), now(), now() - interval '15 min', 'skipped', 1 FROM generate_series(1, 9) i`)
	u.signedIn(u.token(1, identity.Superadmin))
	ask := func(args ...string) (p page) {
		out := u.through(append(append([]string{"runs"}, args...), "-o", "json")...)
		require.Equal(t, 0, out.code, out.stderr)
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &p))
		return p
	}
	for _, filter := range [][]string{{}, {"--verdict", "skipped,running,failed"}, {"--since", "1h"}, {"--until", "10m"}, {"--type", "web", "--verdict", "skipped"}} {
		whole := ask(append(filter, "--limit", "10000")...)
		require.Nil(t, whole.Next)
		require.ElementsMatch(t, u.page(append(filter, "--limit", "10000")...).said(), whole.said(), filter)
		var paged page
		pages := 0
		for next := ""; ; pages++ {
			one := ask(append([]string{"--limit", "3", "--cursor", next}, filter...)...)
			require.LessOrEqual(t, len(one.Runs), 3)
			paged.Runs = append(paged.Runs, one.Runs...)
			if one.Next == nil {
				break
			}
			next = *one.Next
		}
		require.Greater(t, pages, 1)
		require.ElementsMatch(t, whole.Runs, paged.Runs)
	}
	require.Regexp(t, `and more: --cursor \S+\n$`, u.through("runs", "--limit", "2").stdout)
	for _, wrong := range []string{"nonsense", strings.Repeat("n", 9000)} {
		u.same("runs", "--cursor", wrong)
	}
}

func TestARunIsCancelledThroughAServerOnce(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.signedIn(u.token(1, identity.Superadmin))
	claim := func() string {
		u.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp()`)
		u.exec(`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', 1, 'run_id', gen_random_uuid())), clock_timestamp())`)
		return u.row(`SELECT run_id::text FROM connectors`)
	}
	run := claim()
	require.Equal(t, "run "+run[:8]+" of connector 1 is cancelled; `echomind why 1` tells what happens next\n", u.through("runs", "cancel", run[:8]).stdout)
	require.Contains(t, u.through("runs", "cancel", run).stdout, "is cancelled already; ")
	require.Contains(t, u.through("runs", "cancel", run[:8]).stderr, "no open run begins with "+run[:8]+"; one that has ended is named to a server by its whole id")
	require.Equal(t, "cancelled by user 1", u.row(`SELECT error_message FROM runs`))
	run = claim()
	u.succeed("connectors", "disable", "1")
	out := u.through("runs", "cancel", run)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "The run has ended before: superseded.")
	require.Contains(t, u.through("runs", "cancel", "ffffffff-ffff-4fff-8fff-ffffffffffff").stderr, "there is no run ffffffff-ffff-4fff-8fff-ffffffffffff")
}

// Each is added, and then changed, once on the database and once through the server.
func TestConnectorsAreAddedAndChangedTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('holidays', 'UTC', '[{"name": "x", "start": "2027-01-01"}]')`)
	u.add("--name", "first")
	u.add("--name", "second")
	u.signedIn(u.token(1, identity.Superadmin))
	standing := func(id string) string {
		return u.row(`SELECT (to_jsonb(c) - '{id,config,created_at,created_by,updated_at,updated_by,config_version,added_version,due_at,next_sync_at,slot_at,slots_through,planned_through,name}'::text[])::text
			|| coalesce((SELECT jsonb_agg(a.upstream_id || a.accepts || coalesce(a.max_age_minutes, 0) || ' ' || coalesce(a.timeout_minutes, 0) ORDER BY a.upstream_id)::text
				FROM run_after a WHERE a.connector_id = c.id), '') FROM (SELECT *, coalesce(config->>'url', '') AS address FROM connectors) c WHERE id = ` + id)
	}
	file := `{"url":"file:///srv/docs"}`
	for _, one := range []struct{ add, update []string }{
		{[]string{"--type", "file", "--user", "1", "--config", file}, []string{"--refresh", "24h"}},
		{[]string{"--type", "file", "--user", "7", "--config", file, "--refresh", "manual"}, []string{"--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--dst-gap", "skip", "--once-per", "day"}},
		{[]string{"--type", "web", "--user", "1", "--config", site, "--cron", "@daily", "--now", "--calendar", "holidays", "--calendar-use", "only", "--deadline", "2h"}, []string{"--calendar", "none", "--deadline", "none", "--refresh", "0"}},
		{[]string{"--type", "web", "--user", "1", "--config", site, "--scope", "group", "--scope-id", "g1", "--fresh-within", "2h"}, []string{"--scope", "org", "--fresh-within", "none"}},
		{[]string{"--type", "web", "--user", "1", "--config", site, "--max-retries", "3", "--deletion-guard", "off", "--cron", "30 4 * * *", "--overlap", "queue", "--catch-up", "all", "--catch-up-most", "4", "--catch-up-window", "3h"},
			[]string{"--user", "8", "--config", `{"url":"https://other.example/"}`, "--deletion-guard", "on", "--concurrency-key", "gpu", "--catch-up-window", "none"}},
		{[]string{"--type", "web", "--user", "1", "--config", site, "--run-after", "first,2", "--accept", "skipped", "--max-age", "2h"}, []string{"--run-after", "2", "--timeout", "30m"}},
		{[]string{"--type", "web", "--user", "1", "--config", site, "--run-after", "first"}, []string{"--accept", "skipped"}},
		{[]string{"--type", "web", "--user", "1", "--config", site, "--run-after", "first"}, []string{"--run-after", "none", "--name", "x"}},
	} {
		args := append([]string{"connectors", "add", "--name", "x"}, one.add...)
		want, got := u.run(args...), u.through(args...)
		require.Equal(t, []int{0, 0}, []int{want.code, got.code}, "%v: %s%s", one.add, want.stderr, got.stderr)
		here, there := strings.TrimSpace(want.stdout), strings.TrimSpace(got.stdout)
		require.NotEqual(t, here, there)
		require.Equal(t, standing(here), standing(there), "%v", one.add)
		want, got = u.run(append([]string{"connectors", "update", here}, one.update...)...), u.through(append([]string{"connectors", "update", there}, one.update...)...)
		require.Equal(t, want.stdout, strings.ReplaceAll(got.stdout, "connector "+there, "connector "+here), "%v: %s", one.update, got.stderr)
		require.Equal(t, standing(here), standing(there), "%v", one.update)
	}
	for stderr, args := range map[string][]string{
		"echomind: add the connector: 422 ":                 {"connectors", "add", "--name", "x", "--type", "wiki"},
		"body.type must be a type that /api/v1/types lists": {"connectors", "add", "--name", "x", "--type", "tidy", "--scope", "system"},
		"--config, for type web: ":                          {"connectors", "update", "1", "--type", "web"},
		`--type "": must be a type`:                         {"connectors", "list", "--type", ""},
		"--user 0: must be a user's number":                 {"connectors", "list", "--user", "0"},
		`body.calendar "nowhere" is no calendar`:            {"connectors", "update", "1", "--time-zone", "UTC", "--cron", "0 0 1 1 *", "--calendar", "nowhere"},
		"--config, for type file: ":                         {"connectors", "update", "1", "--config", "{}"},
		"there is no connector 99":                          {"connectors", "update", "99", "--name", "y"},
		"the connector runs after nobody":                   {"connectors", "update", "1", "--accept", "skipped"},
		`--run-after: there is no connector "nobody"`:       {"connectors", "update", "1", "--run-after", "nobody"},
	} {
		out := u.through(args...)
		require.NotEqual(t, 0, out.code)
		require.Contains(t, out.stderr, stderr)
	}
	u.signedIn(u.token(7, identity.User))
	mine := u.through("connectors", "add", "--name", "mine", "--type", "file", "--config", file)
	require.Equal(t, "7", u.row(`SELECT user_id::text FROM connectors WHERE id = `+strings.TrimSpace(mine.stdout)), "whose it is need not be said")
	require.Contains(t, u.through("connectors", "add", "--name", "theirs", "--type", "file", "--config", file, "--user", "8").stderr, "403 ")
}

func TestWhatManyOpenRunsWaitForIsShownThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'more ' || i, 'web', 1 + i % 2, 60 FROM generate_series(1, 29) i`)
	u.exec(`SELECT moves.claim((SELECT jsonb_agg(jsonb_build_object('id', id, 'run_id', gen_random_uuid())) FROM connectors WHERE id > 1), clock_timestamp())`)
	u.exec(`UPDATE open_runs SET waits_until = now() + interval '3 d', wait_message = 'Microsoft asked us, ' || connector_id || ', to wait' WHERE connector_id % 3 = 0`)
	u.signedIn(u.token(1, identity.Superadmin))
	for _, form := range []string{"table", "wide"} {
		want, got := u.run("connectors", "list", "-o", form), u.through("connectors", "list", "-o", form)
		require.Contains(t, strings.Join(strings.Fields(got.stdout), " "), "Microsoft asked us, 27, to wait until")
		require.Equal(t, want, got)
	}
}

func TestDocumentsOfManyAreNotAllReadToCountThoseThatFailed(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.add("--name", "large", "--refresh", "manual")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, chunk_count, config_version)
		SELECT 2, 'page ' || i, 'failed', 'not a PDF', 0, 2 FROM generate_series(1, 100001) i`)
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, chunk_count, config_version) VALUES (1, 'a', 'failed', 'not a PDF', 0, 1)`)
	u.signedIn(u.token(1, identity.Superadmin))
	shown := u.through("connectors", "list").stdout
	require.Regexp(t, `(?m)^1 +docs .* 0 +1 *$`, shown)
	require.Regexp(t, `(?m)^2 +large .* 0 +\? *$`, shown)
	require.Contains(t, shown, "failed documents are not counted: a server reads 100,000 documents")
	require.Regexp(t, `failed documents +1\n`, u.through("connectors", "get", "1").stdout)
	require.Regexp(t, `failed documents +\?\n`, u.through("connectors", "get", "2").stdout)
}

func TestTriggerWaitShowsProgressThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, chunk_count, config_version) VALUES (1, 'of an earlier run', 'failed', 'not a PDF', 0, 1)`)
	token := u.token(1, identity.Superadmin)

	// It does not answer now and then: that is waited for.
	origin, err := url.Parse(u.server.URL)
	require.NoError(t, err)
	var asked atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(origin)
	flaky := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/runs") && asked.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(flaky.Close)
	u.signedIn(token)
	t.Setenv("ECHOMIND_URL", flaky.URL)

	wait := u.services(completes)
	out := u.through("connectors", "trigger", "1", "--wait", "--timeout", "60s")
	wait()
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, "completed: 3 documents, 0 unchanged, 0 deleted, 0 failed\n"+
		"1 document is failed; `echomind documents 1 --failed` lists what failed:\n    1 × not a PDF\n")

	t.Setenv("ECHOMIND_URL", u.server.URL)
	wait = u.services(fails)
	out = u.through("connectors", "trigger", "1", "--wait", "-o", "json")
	wait()
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "the sync failed: permanent failure: no such folder")
	var run map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &run), out.stdout)
	require.Equal(t, []any{"failed", "no such folder", "1"}, []any{run["status"], run["error_message"], fmt.Sprint(run["still_failed"].(map[string]any)["documents"])})

	out = u.through("connectors", "trigger", "1", "--wait", "--timeout", "300ms")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "no verdict within 300ms; the sync goes on, `echomind why 1` tells where it stands")
	u.exec(`DELETE FROM connectors`)
	require.Contains(t, u.through("connectors", "trigger", "1", "--wait").stderr, "there is no connector 1")
}

func TestAnAnswerToSomethingElseIsNoSuccess(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.signedIn("ems_1_x")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status": "ok", "id": 9, "connector_id": 9, "connectors": [], "runs": []}`))
	}))
	t.Cleanup(other.Close)
	t.Setenv("ECHOMIND_URL", other.URL)
	for _, command := range []string{
		"whoami", "why 7", "connectors get 7", "connectors enable 7", "connectors disable 7", "connectors trigger 7", "connectors delete 7 --yes", "connectors update 7 --name x",
	} {
		out := u.through(strings.Fields(command)...)
		require.Equal(t, 1, out.code, "%s: %s", command, out.stdout)
		require.Contains(t, out.stderr, "does not answer as the API of EchoMind does", command)
		require.Empty(t, out.stdout, command)
	}
	require.Equal(t, 1, u.fed("ems_1_x", "login", other.URL).code)
	require.NoFileExists(t, u.file)

	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"connectors": [{}` + strings.Repeat(`,{}`, 1_000_000) + `], "next_page_token": "` + fmt.Sprint(time.Now().UnixNano()) + `"}`))
	}))
	t.Cleanup(endless.Close)
	t.Setenv("ECHOMIND_URL", endless.URL)
	require.Contains(t, u.through("connectors", "list").stderr, "or a page of it has more than 500")
}

func TestNothingThatAServerSaysChangesTheTerminal(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.signedIn("ems_1_x")
	const bad = "\\u001b]0;x\\u0007\u009b2J\u202eevil" // two as JSON writes them, two as they are
	status := http.StatusOK
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		kind, says := "application/json", `"BAD"`
		if status != http.StatusOK {
			kind, says = "application/problem+json", strconv.Itoa(status)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(strings.ReplaceAll(strings.Replace(`{"id": 7, "connector_id": 7, "user_id": 7, "role": "BAD", "type": "BAD",
			"status": SAYS, "name": "BAD", "why": "BAD", "next": "BAD", "evidence": ["BAD"], "title": "BAD", "detail": "BAD", "freshness": {"state": "BAD", "how": "BAD"}, "config": {"BAD": "BAD"}}`, "SAYS", says, 1), "BAD", bad)))
	}))
	t.Cleanup(hostile.Close)
	t.Setenv("ECHOMIND_URL", hostile.URL)
	for _, status = range []int{http.StatusOK, http.StatusConflict} {
		for _, command := range []string{
			"whoami", "whoami -o json", "why 7", "why 7 -o json", "connectors get 7", "connectors get 7 -o json", "connectors enable 7", "connectors update 7 --name x",
			"connectors delete 7 --yes", "api GET /x", "connectors trigger 7",
		} {
			out := u.through(strings.Fields(command)...)
			require.NotRegexp(t, "[\x00-\x08\x0b-\x1f\u0080-\u009f\u202e]", out.stdout+out.stderr, command)
			if status != http.StatusOK || command != "connectors trigger 7" && command != "connectors delete 7 --yes" {
				require.Contains(t, out.stdout+out.stderr, "evil", command)
			}
		}
	}
}

func TestATokenThatMayNotReadMayStillDoWhatItMay(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	token := func(scopes string) string {
		var made struct{ Token string }
		u.json(&made, "tokens", "create", "--name", "x", "--user", "1", "--role", "superadmin", "--scopes", scopes)
		return made.Token
	}
	u.signedIn(token("operate"))
	for _, command := range []string{"connectors trigger 1", "connectors disable 1", "connectors enable 1"} {
		out := u.through(strings.Fields(command)...)
		require.Equal(t, 0, out.code, "%s: %s", command, out.stderr)
	}
	require.Contains(t, u.through("connectors", "get", "1").stderr, "403 ")
	u.signedIn(token("write"))
	out := u.through("connectors", "delete", "1", "--yes")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, "0", u.row(`SELECT count(*)::text FROM connectors`))
}

func TestDocumentsGoOnBehindANameThatIsNotShownAsItIs(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, chunk_count, config_version)
		SELECT 1, 'https://example.org/?token=hunter' || i, 'stored', 1, 1 FROM generate_series(1, 5) i`)
	seen, after := 0, ""
	for range 3 {
		shown := u.succeed("documents", "1", "--limit", "2", "--after", after)
		require.NotContains(t, shown, "hunter")
		seen += strings.Count(shown, "REDACTED")
		if _, next, more := strings.Cut(shown, "and more: --after '"); more {
			after = strings.TrimSuffix(next, "'\n")
		}
	}
	require.Equal(t, 5, seen)
	u.exec(`DELETE FROM documents`)
	require.Contains(t, u.run("documents", "1", "--after", after).stderr, "has no such document any more; begin without --after")
}

// A server shows no name by which it could be told where to go on.
func TestDocumentsGoOnThroughAServerBehindANameThatIsNotShownAsItIs(t *testing.T) {
	u := newAway(t)
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, chunk_count, config_version)
		SELECT 1, 'https://example.org/?token=' || repeat(letter, 12), 'stored', i, 1 FROM unnest('{a,b,c,y,z}'::text[]) WITH ORDINALITY n(letter, i)`)
	u.signedIn(u.token(1, identity.Superadmin))
	seen := map[string]bool{}
	asked := []string{"documents", "1", "--limit", "2"}
	for range 5 {
		shown := u.works(asked...)
		for _, row := range regexp.MustCompile(`REDACTED +stored +(\d)`).FindAllStringSubmatch(shown, -1) {
			seen[row[1]] = true
		}
		_, further, more := strings.Cut(shown, "and more: ")
		if !more {
			break
		}
		asked = append(asked, strings.Fields(strings.ReplaceAll(further, "'", ""))...) // of a flag that is given twice the last counts
	}
	require.Len(t, seen, 5)
}

func TestWhatCannotBeCountedIsSaidAndTheRestIsShownThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.signedIn(u.token(1, identity.Superadmin))
	tx, err := u.pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE documents IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	for _, command := range []string{"connectors list", "connectors get 1", "runs 1"} {
		out := u.through(strings.Fields(command)...)
		require.Equal(t, 0, out.code, "%s: %s", command, out.stderr)
		require.Regexp(t, `\?|count the failed documents of connector 1: 409`, out.stdout)
	}
	require.NoError(t, tx.Rollback(t.Context()))
}

// The run that was seen is asked for by its number where the connector is gone at the next look.
func TestAWaitThroughAServerTellsTheVerdictOfWhatWasDeletedBehindIt(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	origin, err := url.Parse(u.server.URL)
	require.NoError(t, err)
	var looks atomic.Int32
	var deleting sync.RWMutex
	proxy := httputil.NewSingleHostReverseProxy(origin)
	counts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deleting.RLock()
		proxy.ServeHTTP(w, r)
		deleting.RUnlock()
		if strings.HasSuffix(r.URL.Path, "/runs") {
			looks.Add(1)
		}
	}))
	t.Cleanup(counts.Close)
	u.signedIn(u.token(1, identity.Superadmin))
	t.Setenv("ECHOMIND_URL", counts.URL)
	wait := u.services(func(ctx context.Context, moves *lifecycle.Lifecycle, try lifecycle.Try) error {
		before := looks.Load()
		testkit.Eventually(u.t, 20*time.Second, func() error {
			if looks.Load() < before+2 { // one of them began after the run was picked up
				return errors.New("nobody has looked at it")
			}
			return nil
		})
		deleting.Lock() // nobody looks between the verdict and the deletion
		defer deleting.Unlock()
		if err := completes(ctx, moves, try); err != nil {
			return err
		}
		_, err := u.pool().Exec(ctx, `DELETE FROM connectors`)
		return err
	})
	out := u.through("connectors", "trigger", "1", "--wait", "--timeout", "60s")
	wait()
	require.Equal(t, 0, out.code, out.stderr)
	require.True(t, strings.HasSuffix(out.stdout, "SYNCING: 3 of 3 stored\nthe connector is gone\n"), out.stdout)
}

func TestNeitherATokenNorAPlaceThatAServerSaysChangesTheTerminal(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.signedIn("ems_1_x")
	const bad = "\\u001b]0;x\\u0007\u009b2J\u202e\\u007f\\nevil"
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(strings.ReplaceAll(`{"id": 7, "user_id": 7, "token": "ems_7_BAD", "name": "BAD", "runs": [{"id": "00000001-0000-4000-8000-000000000008", "connector_id": 7, "status": "running"}],
			"next_page_token": "place-BAD"}`, "BAD", bad)))
	}))
	t.Cleanup(hostile.Close)
	t.Setenv("ECHOMIND_URL", hostile.URL)
	for _, command := range []string{"runs --limit 1", "runs --limit 1 -o json", "tokens create --name x --role user --scopes read", "api GET /x"} {
		out := u.through(strings.Fields(command)...)
		require.NotRegexp(t, "[\x00-\x08\x0b-\x1f\u007f-\u009f\u202e]", out.stdout+out.stderr, command)
	}
}

// An older or a newer API, or whoever else answers, may leave fields out.
func TestAnAnswerWithoutFieldsMakesNoCommandPanic(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.signedIn("ems_1_x")
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":7}`))
	}))
	t.Cleanup(hostile.Close)
	t.Setenv("ECHOMIND_URL", hostile.URL)
	require.NotPanics(t, func() { u.through("connectors", "get", "7") })
}
