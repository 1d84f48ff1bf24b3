package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneRunOfAJobHasParametersAndIsShownWithThem(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.succeed("types", "add", "word_count", "--kind", "job", "--default-refresh", "24h")
	const config = `{"folder":"/a","depth":2}`
	u.add("--name", "words", "--type", "word_count", "--config", config, "--refresh", "manual")
	const with = `{"max_tokens": 5, "depth": null}`
	require.Equal(t, "connector 1 is triggered with {\"max_tokens\":5,\"depth\":null}; `echomind why 1` tells what happens\n",
		u.succeed("connectors", "trigger", "1", "--with", with))
	require.Contains(t, u.object("connectors", "get", "1")["next_parameters"], "max_tokens")
	require.JSONEq(t, config, u.row(`SELECT config::text FROM connectors`), "it stays")

	wait := u.services(completes)
	wait()
	run := u.array("runs", "1")[0]
	require.Contains(t, run["parameters"], "depth")
	require.Contains(t, u.succeed("runs", "1"), `with {"depth":null`)
	id, ok := run["id"].(string)
	require.True(t, ok)
	require.Regexp(t, `(?m)^with +\{"depth":null`, u.succeed("runs", "show", id))
	require.Nil(t, u.object("connectors", "get", "1")["next_parameters"])

	triggered := u.object("connectors", "trigger", "1", "--with", "@"+u.file("with.json", with))
	require.Contains(t, triggered["parameters"], "depth")
	require.NotNil(t, u.object("connectors", "get", "1")["next_parameters"])
	u.succeed("connectors", "trigger", "1", "--with", "{}")
	require.Nil(t, u.object("connectors", "get", "1")["next_parameters"], "they are taken back")
	require.Nil(t, u.object("connectors", "trigger", "1")["parameters"])
}

func TestParametersOfASourceAndSecretsAreRefused(t *testing.T) {
	u := newTerminal(t)
	u.keys(u.key())
	u.add("--name", "site", "--type", "web", "--config", site, "--refresh", "manual")
	u.succeed("types", "add", "word_count", "--kind", "job", "--default-refresh", "24h")
	u.add("--name", "words", "--type", "word_count", "--config", `{"folder":"/a"}`, "--refresh", "manual")
	for _, c := range []struct{ connector, with, says string }{
		{"1", `{"max_pages": 5}`, `--with: connector 1 is a source (web), and parameters are for jobs`},
		{"2", `[1]`, `--with "[1]": must be a JSON object`},
		{"2", `{"max_pages": 5`, `it is not JSON`},
		{"2", `{"a": "` + strings.Repeat("x", 16<<10) + `"}`, `may have at most 16384`},
		{"2", `{"url": "https://ada:pw@example.org"}`, `url is a secret`},
		{"2", `{"refresh_token": "1//another"}`, `refresh_token is a secret, and the ledger would show it`},
		{"2", `{"deep": [{"api_token": "x"}]}`, `deep.[].api_token is a secret`},
	} {
		out := u.run("connectors", "trigger", c.connector, "--with", c.with)
		require.NotZero(t, out.code, c.with)
		require.Contains(t, strings.Join(strings.Fields(out.stderr), " "), c.says, c.with)
	}
	require.Equal(t, "0", u.row(`SELECT count(*)::text FROM connectors WHERE next_parameters IS NOT NULL OR trigger_requested_at IS NOT NULL`))
	require.Contains(t, u.run("connectors", "trigger", "2", "--with", "{}", "--allow-deletions").stderr, "allow-deletions")
	u.succeed("connectors", "trigger", "2", "--with", `{"anything": {"that": "is no secret"}}`)
}

func TestAJobIsShownWithItsProgressItsWarningsAndItsResult(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	require.Equal(t, "type word_count, a job: default refresh 6h, most in flight default\n",
		u.succeed("types", "add", "word_count", "--kind", "job", "--default-refresh", "6h"))
	require.Regexp(t, `(?m)^word_count +job +6h +default +- +-$`, u.succeed("types", "list"))
	require.Regexp(t, `(?m)^web +source +`, u.succeed("types", "list"))
	require.Contains(t, u.run("types", "add", "word_count", "--kind", "source").stderr, "type word_count is a job, and stays one")
	require.Contains(t, u.run("types", "add", "web", "--kind", "work").stderr, `--kind "work": must be source or job`)
	require.Equal(t, "job", u.object("types", "add", "word_count", "--max-concurrent", "2")["kind"])

	u.add("--name", "words", "--type", "word_count", "--config", `{"folder":"/a"}`)
	u.exec(`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', 1, 'run_id', gen_random_uuid())), clock_timestamp())`)
	u.exec(`SELECT moves.pick_up(1, run_id, gen_random_uuid(), gen_random_uuid(), '1 min') FROM connectors`)
	u.exec(`SELECT moves.report(id, try_id, 3, 40, 'three.txt', '{one is odd,two is odd}') FROM open_runs`)
	why := u.succeed("why", "1")
	require.Contains(t, why, "a worker does its job")
	require.Contains(t, why, "progress: 3 of 40: three.txt")
	require.Contains(t, u.succeed("connectors", "list"), "3 of 40: three.txt")
	require.Contains(t, u.succeed("runs", "1"), "2 warnings; 3 of 40: three.txt")
	run := u.row(`SELECT id::text FROM open_runs`)
	require.Regexp(t, `(?m)^progress +3 of 40: three\.txt$`, u.succeed("runs", "show", run))

	u.exec(`SELECT moves.end_job(id, try_id, '{"texts": 40, "tokens": 7, "password": "hunter2"}') FROM open_runs`)
	shown := u.succeed("runs", "show", run)
	for _, line := range []string{`^verdict +completed$`, `^progress +3 of 40: three\.txt$`, `^result +\{"password":"REDACTED","texts":40,"tokens":7\}$`, `^warning +one is odd$`, `^warning +two is odd$`} {
		require.Regexp(t, `(?m)`+line, shown)
	}
	seen := u.object("runs", "show", run)
	require.Equal(t, map[string]any{"texts": 40.0, "tokens": 7.0, "password": "REDACTED"}, seen["result"])
	require.Equal(t, []any{"one is odd", "two is odd"}, seen["warnings"])
	require.Equal(t, map[string]any{"done": 3.0, "total": 40.0, "text": "three.txt"}, seen["progress"])
	require.Nil(t, u.array("runs", "1")[0]["parameters"])
}
