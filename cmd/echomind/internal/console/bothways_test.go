package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/console"
	"github.com/echomind/sync/internal/identity"
)

// through is run through the server that the environment or a login names, in a folder without a stack.
func (u away) through(args ...string) output { return u.throughFed("", args...) }

func (u away) throughFed(in string, args ...string) output {
	u.t.Helper()
	var stdout, stderr bytes.Buffer
	root := console.Root()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(in))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := console.Execute(context.Background(), root)
	return output{stdout.String(), stderr.String(), code}
}

// signedIn names the server and a token in the environment, and works in an empty folder.
func (u away) signedIn(token string) away {
	u.t.Helper()
	for _, name := range []string{"DATABASE_URL", "NATS_URL"} {
		u.t.Setenv(name, "")
	}
	u.t.Setenv("ECHOMIND_URL", u.server.URL)
	u.t.Setenv("ECHOMIND_TOKEN", token)
	u.t.Chdir(u.t.TempDir())
	return u
}

// withheld are fields of JSON that the API does not show: null through a server.
var withheld = []string{"try_id", "worker_id", "dispatched_at", "state", "docs_analyzed", "in_flight", "resources"}

// shown is JSON without what the API does not show, and without how long an open run waits.
func shown(t *testing.T, text string) string {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	var strip func(any)
	strip = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, name := range withheld {
				delete(v, name)
			}
			if v["status"] == "running" {
				delete(v, "queued_seconds")
			}
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	strip(value)
	out, err := json.MarshalIndent(value, "", "  ")
	require.NoError(t, err)
	return string(out)
}

func TestCommandsThatLookShowTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.add("--name", "papers", "--refresh", "60m")
	u.add("--name", "papers", "--type", "web", "--config", site, "--cron", "0 3 * * *", "--user", "7")
	u.verdicts()
	// Times that were long ago are said in days, and so the same a moment later.
	u.force(`UPDATE connectors SET next_sync_at = now() - interval '3 d' - interval '1 h' WHERE next_sync_at IS NOT NULL`)
	u.force(`UPDATE open_runs SET due_at = now() - interval '73 h', started_at = now() - interval '73 h', dispatched_at = now() - interval '73 h'`)
	u.exec(`UPDATE open_runs SET waits_until = now() + interval '3 d', wait_message = 'Microsoft asked us to wait'`)
	u.exec(`INSERT INTO documents (connector_id, source_id, title, url, status, error, chunk_count, updated_at, config_version)
		SELECT 1, 'page ' || to_char(i, 'FM000'), 'Title', 'https://example.org/' || i, CASE WHEN i % 50 = 0 THEN 'failed' ELSE 'stored' END,
			CASE WHEN i % 50 = 0 THEN 'not a PDF' END, 3, now() - interval '3 d', 1 FROM generate_series(1, 700) i`)
	u.signedIn(u.token(1, identity.Superadmin))
	for _, command := range [][]string{
		{"why", "1"}, {"why", "2"}, {"why", "docs"}, {"why", "papers"}, {"why", "nobody"}, {"why", "0"},
		{"documents", "1"}, {"documents", "docs", "--failed"}, {"documents", "1", "--limit", "2"}, {"documents", "1", "--limit", "650"}, {"documents", "2"},
		{"connectors", "list"}, {"connectors", "list", "--type", "web"}, {"connectors", "list", "--status", "error"}, {"connectors", "list", "--user", "7"},
		{"connectors", "list", "--user", "9"}, {"connectors", "get", "1"}, {"connectors", "get", "docs"}, {"connectors", "get", "3"}, {"connectors", "get", "99"},
		{"runs", "1"}, {"runs", "docs", "--verdict", "completed"}, {"runs", "1", "--verdict", "missed,failed"}, {"runs", "2"}, {"runs", "1", "--limit", "1"},
		{"runs", "1", "--since", "1h"}, {"runs", "1", "--until", "1h"}, {"runs", "papers"},
		{"runs"}, {"runs", "--verdict", "running"}, {"runs", "--verdict", "failed,missed,skipped"}, {"runs", "--type", "file"}, {"runs", "--type", "file,web", "--since", "30d"},
		{"runs", "--until", "1h"}, {"runs", "--type", "wiki"}, {"runs", "--since", "1h", "--until", "2h"}, {"runs", "--since", "2001-01-01T00:00:00Z", "--until", "2002-01-01T00:00:00Z"},
		{"documents", "1", "--after", "page 002", "--limit", "3"}, {"documents", "1", "--after", "page 650", "--failed"}, {"documents", "9"}, {"documents", "1", "--after", "nothing"}, {"documents", "1", "--after", "pa\u2028"}, {"documents", "1", "--limit", "0"},
	} {
		for _, form := range []string{"table", "wide", "json"} {
			args := slices.Concat(command, []string{"-o", form})
			want, got := u.run(args...), u.through(args...)
			if form == "json" && want.code == 0 && got.code == 0 {
				want.stdout, got.stdout = shown(t, want.stdout), shown(t, got.stdout)
			}
			require.Equal(t, want, got, "%v", args)
		}
	}
}

func TestCommandsThatChangeDoTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--name", "a", "--refresh", "manual")
	u.add("--name", "b", "--refresh", "manual")
	u.signedIn(u.token(1, identity.Superadmin))
	standing := func(id string) string {
		return u.row(`SELECT status || ' ' || (trigger_requested_at IS NOT NULL) || ' ' || (deletions_allowed_at IS NOT NULL) FROM connectors WHERE id = ` + id)
	}
	for _, command := range [][]string{
		{"connectors", "trigger", "ID"}, {"connectors", "trigger", "ID", "--allow-deletions"}, {"connectors", "enable", "ID"}, {"connectors", "disable", "ID"},
		{"connectors", "disable", "ID", "nobody"}, {"connectors", "enable", "ID", "-o", "wide"}, {"connectors", "disable", "ID", "ID"}, {"connectors", "enable", "99"}, {"connectors", "trigger", "99"},
		{"connectors", "delete", "99", "--yes"}, {"connectors", "delete", "ID"}, {"connectors", "trigger", "ID", "--with", `{"api_key": "x"}`},
	} {
		named := func(id string) []string {
			args := make([]string, len(command))
			for i, arg := range command {
				args[i] = strings.ReplaceAll(arg, "ID", id)
			}
			return args
		}
		want, got := u.run(named("1")...), u.through(named("2")...)
		if command[len(command)-2] == "--with" {
			require.Equal(t, []int{2, 2}, []int{want.code, got.code}, got.stderr)
			continue
		}
		require.Equal(t, want, output{strings.ReplaceAll(got.stdout, "2", "1"), strings.ReplaceAll(got.stderr, "2", "1"), got.code}, "%v", command)
		require.Equal(t, standing("1"), standing("2"), "%v", command)
	}
	require.Equal(t, 0, u.through("connectors", "disable", "2").code)
	refused := u.through("connectors", "trigger", "2")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "echomind: trigger connector 2: 409 Not possible now: The connector is disabled. Enable it first.")
	require.Equal(t, u.run("connectors", "delete", "a", "--yes").stdout,
		strings.NewReplacer("2", "1", "(b)", "(a)").Replace(u.through("connectors", "delete", "b", "--yes").stdout))
	require.Equal(t, "0", u.row(`SELECT count(*)::text FROM connectors`))
	require.Equal(t, "user 1", u.row(`SELECT DISTINCT coalesce('user ' || user_id, '-') FROM audit WHERE action = 'connectors.delete' AND user_id IS NOT NULL`))
}

func TestTokensAreMadeListedAndRevokedThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.succeed("tokens", "create", "--user", "7", "--name", "theirs", "--expires", "90d")
	u.signedIn(u.token(1, identity.Superadmin))
	made := u.through("tokens", "create", "--name", "mine", "--scopes", "read,operate", "--expires", "90d", "-o", "json")
	require.Equal(t, 0, made.code, made.stderr)
	var token struct {
		Token  string
		UserID int32 `json:"user_id"`
		Scopes []string
	}
	require.NoError(t, json.Unmarshal([]byte(made.stdout), &token))
	require.Equal(t, []any{int32(1), []string{"read", "operate"}}, []any{token.UserID, token.Scopes})
	require.Regexp(t, `^ems_\d+_\w+\n$`, u.through("tokens", "create", "--user", "9", "--role", "admin").stdout)
	for _, args := range [][]string{{"tokens", "list"}, {"tokens", "list", "--user", "7"}, {"tokens", "list", "--user", "8"}, {"tokens", "list", "--user", "0"}} {
		for _, form := range []string{"table", "json"} {
			args := append(args, "-o", form)
			require.Equal(t, u.run(args...), u.through(args...), "%v", args)
		}
	}
	require.Equal(t, "token 1 is revoked\n", u.through("tokens", "revoke", "1").stdout)
	require.Equal(t, u.run("tokens", "revoke", "1"), u.through("tokens", "revoke", "1"))
	require.Equal(t, u.run("tokens", "revoke", "99"), u.through("tokens", "revoke", "99"))
	require.Regexp(t, `^1 +7 +theirs +user +read +revoked`, strings.SplitN(u.through("tokens", "list").stdout, "\n", 2)[1])
	t.Setenv("ECHOMIND_TOKEN", token.Token)
	refused := u.through("tokens", "create", "--role", "superadmin", "--scopes", "admin")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "make the token: 403 ")
}

func TestASearchThroughAServerIsForWhoIsLoggedIn(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--user", "1")
	u.storedPart("Polish the Fresnel lens\nevery week.")
	want := u.succeed("search", "--user", "1", "Fresnel", "lens")
	require.Contains(t, want, "Polish the Fresnel lens")
	u.signedIn(u.token(1, identity.User))
	require.Equal(t, want, u.through("search", "Fresnel", "lens").stdout)
	found := u.through("search", "Fresnel lens", "-o", "json").stdout
	var hits []map[string]any
	require.NoError(t, json.Unmarshal([]byte(found), &hits))
	inside := u.array("search", "--user", "1", "Fresnel lens")
	for _, h := range inside {
		require.Contains(t, []any{h["start"], h["end"]}, float64(0))
		h["start"], h["end"] = nil, nil
	}
	require.Equal(t, inside, hits)
	require.Equal(t, "nothing found\n", u.through("search", "whale").stdout)
	require.Equal(t, "[]\n", u.through("search", "whale", "-o", "json").stdout)
	for stderr, args := range map[string][]string{
		"a server searches for who is logged in; leave them out": {"search", "--user", "1", "lens"},
		"must be 1 to 100":              {"search", "lens", "--limit", "101"},
		"must have a letter or a digit": {"search", "?!"},
	} {
		out := u.through(args...)
		require.NotEqual(t, 0, out.code)
		require.Contains(t, out.stderr, stderr)
	}
	t.Setenv("ECHOMIND_TOKEN", u.token(2, identity.User))
	require.Equal(t, "nothing found\n", u.through("search", "Fresnel lens").stdout, "it is somebody else's")
}

func TestATriggerThroughAServerSaysWhichWindowHoldsIt(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('always', 'UTC', '[{"name": "always", "start": "2020-01-01", "rule": "FREQ=DAILY"}]'),
		('days', 'Pacific/Auckland', jsonb_build_array(jsonb_build_object('name', 'days', 'start', (clock_timestamp() AT TIME ZONE 'UTC')::date - 2,
			'end', (clock_timestamp() AT TIME ZONE 'UTC')::date + 5)))`)
	u.succeed("blackouts", "set", "alpha", "--calendar", "days", "--mode", "defer")
	u.succeed("blackouts", "set", "other", "--calendar", "always", "--mode", "defer", "--type", "web")
	u.succeed("blackouts", "set", "spared", "--calendar", "always", "--mode", "defer", "--except", "1")
	u.signedIn(u.token(1, identity.Superadmin))
	for _, window := range []string{"alpha` until ", "beta` without an end"} {
		want := u.run("connectors", "trigger", "1")
		require.Contains(t, want.stderr, "connector 1 waits: blackout `"+window)
		require.Equal(t, want, u.through("connectors", "trigger", "1"))
		u.succeed("blackouts", "set", "beta", "--calendar", "always", "--mode", "defer", "--user", "1")
	}
}

func TestWhatDoesNotWorkThroughAServerSaysSoAndAsksNobodyElse(t *testing.T) {
	u := newAway(t)
	u.add()
	u.signedIn(u.token(1, identity.Superadmin))
	for command, says := range map[string]string{
		"import crontab " + os.DevNull + " --user 1": "under a key that leaves no server; set DATABASE_URL, and SECRETS_KEY_FILE or SECRETS_KEY where there are secrets (",
		"migrate up":                    "does not work through a server: a schema is changed on its database; set DATABASE_URL (",
		"migrate status":                "a schema is changed on its database; set DATABASE_URL (",
		"secrets rotate":                "the key that secrets are encrypted with leaves no server; set DATABASE_URL, and SECRETS_KEY_FILE or SECRETS_KEY (",
		"streams show":                  "`echomind status` shows what they hold; set NATS_URL (",
		"streams apply":                 "set NATS_URL (",
		"conditions add x --query x":    "conditions are SQL, which is written and tried on the database; set DATABASE_URL (",
		"conditions update x --users 1": "set DATABASE_URL (",
		"conditions remove x":           "set DATABASE_URL (",
		"conditions try x":              "set DATABASE_URL (",
	} {
		out := u.through(strings.Fields(command)...)
		require.Equal(t, 1, out.code, "%s: %s", command, out.stderr)
		require.Contains(t, out.stderr, says, command)
		require.Contains(t, out.stderr, "(the server is "+u.server.URL+", of ECHOMIND_URL)", command)
		require.Empty(t, out.stdout, command)
	}
	require.Equal(t, "none", u.row(`SELECT coalesce(trigger_requested_at::text, 'none') FROM connectors`))
	offered := u.through("__complete", "why", "")
	require.NotContains(t, offered.stdout, "docs", "no server is asked what to offer")
}

func TestDatabaseURLGoesBeforeAServerAndAStackOfTheFolderBeforeALogin(t *testing.T) {
	u := newAway(t)
	u.add()
	u.signedIn("ems_1_wrong")
	t.Setenv("DATABASE_URL", u.lookup.DatabaseURL)
	require.Equal(t, "no documents\n", u.through("documents", "1").stdout)
	t.Setenv("DATABASE_URL", "")
	refused := u.through("documents", "1").stderr
	require.Contains(t, refused, u.server.URL+" does not take the token of ECHOMIND_TOKEN: ")
	require.Contains(t, refused, "one that `echomind tokens create` makes", "the advice of the API has no secret in it")

	t.Setenv("ECHOMIND_URL", "")
	t.Setenv("ECHOMIND_TOKEN", "")
	require.Equal(t, 0, u.fed(u.token(1, identity.Superadmin), "login", u.server.URL).code)
	require.Equal(t, "no documents\n", u.through("documents", "1").stdout)
	require.NoError(t, os.Mkdir("data", 0o700))
	require.Contains(t, u.through("documents", "1").stderr, "not running", "the stack of this folder")
	require.NoError(t, os.Remove("data"))
	t.Setenv("ECHOMIND_DATA_DIR", filepath.Join(t.TempDir(), "elsewhere"))
	require.Contains(t, u.through("documents", "1").stderr, "not running", "the stack that is named")
	t.Setenv("ECHOMIND_DATA_DIR", "./data")
	require.NoError(t, os.Chmod(u.file, 0o644))
	require.Contains(t, u.through("documents", "1").stderr, "others may read it", "nothing else is asked in its place")
}

func TestAUserSeesTheirOwnThroughAServer(t *testing.T) {
	u := newAway(t)
	u.add("--name", "mine", "--user", "7")
	u.add("--name", "theirs", "--user", "8")
	u.signedIn(u.token(7, identity.User))
	require.Equal(t, "no documents\n", u.through("documents", "mine").stdout)
	for _, command := range []string{"documents 2", "why 2", "connectors trigger 2", "connectors disable 2", "connectors delete 2 --yes"} {
		out := u.through(strings.Fields(command)...)
		require.Equal(t, 1, out.code, command)
		require.Equal(t, "echomind: there is no connector 2; `echomind connectors list` shows those there are\n", out.stderr, command)
	}
	require.Contains(t, u.through("documents", "theirs").stderr, `there is no connector "theirs"`)
}

func TestAServerThatDoesNotAnswerAsTheAPIDoesIsSaidSo(t *testing.T) {
	u := newAway(t)
	token := u.token(7, identity.User)
	u.exec(`UPDATE access_tokens SET created_at = now() - interval '2 d', expires_at = now() - interval '1 d'`)
	u.signedIn(token)
	require.Contains(t, u.through("why", "1").stderr, "does not take the token of ECHOMIND_TOKEN: ask about connector 1: 401 ")
	gone := httptest.NewServer(nil)
	gone.Close()
	nonsense := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`["nothing", "of", "the", "sort"]`))
	}))
	t.Cleanup(nonsense.Close)
	leads := httptest.NewServer(http.RedirectHandler(u.server.URL, http.StatusTemporaryRedirect))
	t.Cleanup(leads.Close)
	for url, want := range map[string]string{gone.URL: "connection refused", nonsense.URL: "cannot unmarshal array", leads.URL: "answers 307"} {
		t.Setenv("ECHOMIND_URL", url)
		for _, command := range []string{"why 1", "documents docs", "connectors trigger 1"} {
			out := u.through(strings.Fields(command)...)
			require.Equal(t, 1, out.code, command)
			require.Contains(t, out.stderr, want, command)
			require.NotContains(t, out.stderr, token)
		}
	}
}
