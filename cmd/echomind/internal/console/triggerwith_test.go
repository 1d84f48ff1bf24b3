package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneSyncHasParametersAndIsShownWithThem(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.add("--name", "site", "--type", "web", "--config", site, "--refresh", "manual")
	const with = `{"max_pages": 5, "respect_robots": null}`
	require.Equal(t, "connector 1 is triggered with {\"max_pages\":5,\"respect_robots\":null}; `echomind why 1` tells what happens\n",
		u.succeed("connectors", "trigger", "1", "--with", with))
	require.Equal(t, map[string]any{"max_pages": 5.0, "respect_robots": nil}, u.object("connectors", "get", "1")["next_parameters"])
	require.Regexp(t, `(?m)^next sync with +\{"max_pages":5,"respect_robots":null\}$`, u.succeed("connectors", "get", "1"))
	require.JSONEq(t, site, u.row(`SELECT config::text FROM connectors`), "it stays")

	wait := u.services(completes)
	wait()
	run := u.array("runs", "1")[0]
	require.Equal(t, map[string]any{"max_pages": 5.0, "respect_robots": nil}, run["parameters"])
	require.Contains(t, u.succeed("runs", "1"), `with {"max_pages":5,"respect_robots":null}`)
	id, ok := run["id"].(string)
	require.True(t, ok)
	require.Regexp(t, `(?m)^with +\{"max_pages":5,"respect_robots":null\}$`, u.succeed("runs", "show", id))
	require.Nil(t, u.object("connectors", "get", "1")["next_parameters"])

	triggered := u.object("connectors", "trigger", "1", "--with", "@"+u.file("with.json", with))
	require.Equal(t, map[string]any{"max_pages": 5.0, "respect_robots": nil}, triggered["parameters"])
	require.NotNil(t, u.object("connectors", "get", "1")["next_parameters"])
	u.succeed("connectors", "trigger", "1", "--with", "{}")
	require.Nil(t, u.object("connectors", "get", "1")["next_parameters"], "they are taken back")
	require.Nil(t, u.object("connectors", "trigger", "1")["parameters"])
}

func TestParametersThatAddWouldRefuseAreRefusedAndSoAreSecrets(t *testing.T) {
	u := newTerminal(t)
	u.keys(u.key())
	u.add("--name", "site", "--type", "web", "--config", site, "--refresh", "manual")
	u.succeed("connectors", "add", "--name", "drive", "--type", "google_drive", "--user", "1", "--refresh", "manual", "--config",
		`{"refresh_token":"1//very-secret","client_id":"me","client_secret":"very-secret"}`)
	u.succeed("types", "add", "wiki", "--default-refresh", "24h")
	u.add("--name", "wiki", "--type", "wiki", "--config", `{"url":"https://a"}`, "--refresh", "manual")
	for _, c := range []struct{ connector, with, says string }{
		{"1", `{"max_page": 5}`, `--with, for type web: `},
		{"1", `{"max_pages": "many"}`, `--with, for type web: `},
		{"1", `{"url": null}`, `--with, for type web: `},
		{"1", `[1]`, `--with "[1]": must be a JSON object`},
		{"1", `{"max_pages": 5`, `it is not JSON`},
		{"1", `{"a": "` + strings.Repeat("x", 16<<10) + `"}`, `may have at most 16384`},
		{"1", `{"url": "https://ada:pw@example.org"}`, `url is a secret`},
		{"2", `{"refresh_token": "1//another"}`, `refresh_token is a secret, and the ledger would show it`},
		{"2", `{"client_secret": null}`, `client_secret is a secret`},
		{"3", `{"deep": [{"api_token": "x"}]}`, `deep.[].api_token is a secret`},
		{"3", `{"url": "REDACTED"}`, `stands for a secret in our output`},
	} {
		out := u.run("connectors", "trigger", c.connector, "--with", c.with)
		require.NotZero(t, out.code, c.with)
		require.Contains(t, strings.Join(strings.Fields(out.stderr), " "), c.says, c.with)
	}
	require.Equal(t, "0", u.row(`SELECT count(*)::text FROM connectors WHERE next_parameters IS NOT NULL OR trigger_requested_at IS NOT NULL`))
	require.Contains(t, u.run("connectors", "trigger", "1", "--with", "{}", "--allow-deletions").stderr, "allow-deletions")
	u.succeed("connectors", "trigger", "1", "--with", `{"max_page": 5}`, "--no-config-check")
	u.succeed("connectors", "trigger", "3", "--with", `{"anything": {"that": "is no secret"}}`)
	u.succeed("connectors", "trigger", "2", "--with", `{"folder_ids": ["a"]}`, "--no-config-check")
}
