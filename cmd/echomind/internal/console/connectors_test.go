package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// site is a configuration that type web accepts.
const site = `{"url":"https://example.org"}`

func TestAddPrintsTheIDAndForProgramsTheConnector(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	require.Equal(t, "1", u.add("--refresh", "60m"))
	c := u.object("connectors", "add", "--name", "site", "--type", "web", "--user", "2", "--config", site,
		"--scope", "group", "--scope-id", "sales", "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--max-retries", "9")
	require.InDelta(t, 2, c["id"], 0)
	require.Equal(t, "group", c["scope"])
	require.Equal(t, "sales", c["scope_id"])
	require.Equal(t, "0 3 * * *", c["schedule_cron"])
	require.Equal(t, "Europe/Berlin", c["time_zone"])
	require.Nil(t, c["refresh_freq_minutes"])
	require.InDelta(t, 9, c["max_retries"], 0)
	require.Equal(t, true, c["deletion_guard"])
	require.Equal(t, "ACTIVE", c["status"])
	require.NotEmpty(t, c["created_by"])
}

// The scheduler's TestANewCronConnectorWaitsForItsFirstSlot says why.
func TestTheHelpOfAddSaysWhichNewConnectorIsNotSyncedAtOnce(t *testing.T) {
	t.Parallel()
	help := strings.Join(strings.Fields(newTerminal(t).succeed("connectors", "add", "--help")), " ")
	require.Contains(t, help, "With --refresh it is synced at once, and then again as it says; with --cron at the first of its times, "+
		"or with --now at once, too. With --refresh manual it waits for echomind connectors trigger.")
}

func TestTheIntervalIsTheOneGivenElseTheTypes(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.succeed("types", "add", "wiki", "--default-refresh", "90m")
	u.succeed("types", "add", "teams", "--default-refresh", "2h")
	for _, c := range []struct {
		name    string
		args    []string
		minutes any
	}{
		{"minutes", []string{"--type", "file", "--refresh", "60m"}, 60.0},
		{"hours", []string{"--type", "file", "--refresh", "24h"}, 1440.0},
		{"days and hours", []string{"--type", "file", "--refresh", "1d12h"}, 2160.0},
		{"once", []string{"--type", "web", "--refresh", "0"}, 0.0},
		{"manual", []string{"--type", "web", "--refresh", "manual"}, nil},
		{"web by default", []string{"--type", "web"}, 10080.0},
		{"onedrive by default", []string{"--type", "onedrive"}, 10080.0},
		{"google_drive by default", []string{"--type", "google_drive"}, 10080.0},
		{"file by default", []string{"--type", "file"}, 0.0},
		{"a custom type's default", []string{"--type", "wiki"}, 90.0},
		{"the type's row before the service's default", []string{"--type", "teams"}, 120.0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := u.object(append([]string{"connectors", "add", "--name", "x", "--user", "1", "--no-config-check"}, c.args...)...)
			require.Equal(t, c.minutes, got["refresh_freq_minutes"])
		})
	}
}

func TestDefaultsAreThoseOfTheScheduler(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.exec(`UPDATE refresh_defaults SET minutes = 7 WHERE type = 'teams'`)
	c := u.object("connectors", "add", "--name", "x", "--user", "1", "--type", "teams", "--no-config-check")
	require.InDelta(t, 7, c["refresh_freq_minutes"], 0)
}

func TestBadInputNamesFieldValueAndFix(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add()
	u.succeed("types", "add", "bare")
	large := `{"list":"` + strings.Repeat("x", 70000) + `"}`
	for _, c := range []struct {
		name string
		code int
		says []string
		args []string
	}{
		{"unknown type", 1, []string{`--type "nix"`, "file, google_drive, onedrive, teams, web", "types add"}, []string{"--type", "nix"}},
		{"unknown type with an interval", 1, []string{`--type "nix"`, "types add"}, []string{"--type", "nix", "--refresh", "1h"}},
		{"type without default", 2, []string{`type "bare" has no default`, "--refresh"}, []string{"--type", "bare"}},
		{"empty name", 2, []string{`--name ""`, "1 to 200"}, []string{"--name", ""}},
		{"long name", 2, []string{"--name", "has 201"}, []string{"--name", strings.Repeat("x", 201)}},
		{"user zero", 2, []string{"--user 0", "1 or more"}, []string{"--user", "0"}},
		{"user beyond integers", 2, []string{"4294967296", "--user"}, []string{"--user", "4294967296"}},
		{"bad scope", 2, []string{`--scope "team"`, "user, group, org or system"}, []string{"--scope", "team"}},
		{"group without id", 2, []string{"--scope group", "--scope-id"}, []string{"--scope", "group"}},
		{"bad scope id", 2, []string{`--scope-id "a b"`, "letters"}, []string{"--scope", "group", "--scope-id", "a b"}},
		{"scope id without its scope", 2, []string{`--scope-id "sales"`, "--scope group", "the scope is user"}, []string{"--scope-id", "sales"}},
		{"scope id of another scope", 2, []string{`--scope-id "sales"`, "the scope is org"}, []string{"--scope", "org", "--scope-id", "sales"}},
		{"bad JSON", 2, []string{`--config "{bad"`, "JSON object"}, []string{"--config", "{bad"}},
		{"JSON array", 2, []string{`--config "[1]"`, "JSON object"}, []string{"--config", "[1]"}},
		{"JSON null", 2, []string{`--config "null"`, "JSON object"}, []string{"--config", "null"}},
		{"NUL in config", 2, []string{"--config", "NUL"}, []string{"--config", `{"a":"\u0000"}`}},
		{"half a surrogate in config", 2, []string{"--config", "cannot store"}, []string{"--no-config-check", "--config", `{"a":"\ud800"}`}},
		{"large config", 2, []string{"--config", "64 KiB", "70011 bytes"}, []string{"--no-config-check", "--config", large}},
		{"config without url", 2, []string{"--config, for type file: url: it is missing", "--no-config-check"}, []string{"--config", "{}"}},
		{"config of another type", 2, []string{"max_depth: there is no such field; there are url, include"},
			[]string{"--config", `{"url":"file:///srv","max_depth":1}`}},
		{"config out of range", 2, []string{"--config, for type web: max_depth 99: set it between 0"},
			[]string{"--type", "web", "--config", `{"url":"https://example.org","max_depth":99}`}},
		{"remote source without credentials", 2, []string{"for type google_drive: folder: there is no such field; there are client_id", "give refresh_token, or service_account"},
			[]string{"--type", "google_drive", "--config", `{"folder":"x"}`}},
		{"config in a file that is not there", 2, []string{"--config @/nowhere/x.json", "no such file"}, []string{"--config", "@/nowhere/x.json"}},
		{"masked secret", 2, []string{"config.token", "REDACTED"}, []string{"--config", `{"token":"REDACTED"}`}},
		{"negative refresh", 2, []string{"--refresh", "-5m", "negative"}, []string{"--refresh", "-5m"}},
		{"seconds", 2, []string{"--refresh", "90s", "60m"}, []string{"--refresh", "90s"}},
		{"bare number", 2, []string{"--refresh", "60m"}, []string{"--refresh", "60"}},
		{"endless refresh", 2, []string{"--refresh", "at most 3650d"}, []string{"--refresh", "9999999999999999999d"}},
		{"bad cron", 2, []string{`--cron "at noon"`, "five fields"}, []string{"--cron", "at noon"}},
		{"cron interval", 2, []string{"@every", "--refresh"}, []string{"--cron", "@every 5m"}},
		{"bad time zone", 2, []string{`--time-zone "Mars"`, "Europe/Berlin"}, []string{"--cron", "0 3 * * *", "--time-zone", "Mars"}},
		{"cron that never comes due", 2, []string{`--cron "0 2 30 2 *"`, "never comes due"}, []string{"--cron", "0 2 30 2 *"}},
		{"now without cron", 2, []string{"--now: needs --cron"}, []string{"--refresh", "1h", "--now"}},
		{"time zone without cron", 2, []string{"--time-zone", "--cron"}, []string{"--time-zone", "Europe/Berlin"}},
		{"gap without cron", 2, []string{"--dst-gap: needs --cron"}, []string{"--dst-gap", "skip"}},
		{"unknown gap", 2, []string{`--dst-gap "first": must be after, skip, before or default`}, []string{"--cron", "0 3 * * *", "--dst-gap", "first"}},
		{"unknown overlap", 2, []string{`--dst-overlap "after": must be first, second, both or default`}, []string{"--cron", "0 3 * * *", "--dst-overlap", "after"}},
		{"overlap without cron", 2, []string{"--overlap: needs --cron"}, []string{"--overlap", "queue"}},
		{"spread of a cron schedule", 2, []string{"--spread: is about --refresh", "H 3 * * *"}, []string{"--cron", "0 3 * * *", "--spread", "5%"}},
		{"spread beyond the interval", 2, []string{"--spread", `"101%": write 0 (off) to 100%`}, []string{"--spread", "101%"}},
		{"deadline in seconds", 2, []string{"--deadline", `"90s": write 30m, 2h or 7d, at most 365d, or none`}, []string{"--deadline", "90s"}},
		{"deadline of years", 2, []string{"--deadline", "at most 365d"}, []string{"--deadline", "366d"}},
		{"unknown overlap policy", 2, []string{`--overlap "run": must be skip or queue`}, []string{"--cron", "0 3 * * *", "--overlap", "run"}},
		{"unknown period", 2, []string{`--once-per "year": must be day, week, month or none`}, []string{"--cron", "0 3 * * *", "--once-per", "year"}},
		{"unknown catch-up", 2, []string{`--catch-up "some": must be none, latest or all`}, []string{"--catch-up", "some"}},
		{"too much to catch up", 2, []string{"--catch-up-most 1001: must be 1 to 1000"}, []string{"--catch-up-most", "1001"}},
		{"a weekday that is none", 2, []string{`the day of week "5#6"`, "third Friday"}, []string{"--cron", "0 3 * * 5#6"}},
		{"interval and cron", 2, []string{"refresh", "cron"}, []string{"--refresh", "1h", "--cron", "0 3 * * *"}},
		{"a guard that is neither", 2, []string{`--deletion-guard "false"`, "on or off"}, []string{"--deletion-guard", "false"}},
		{"no retries", 2, []string{"--max-retries 0", "1 to 1000"}, []string{"--max-retries", "0"}},
		{"unknown flag", 2, []string{"--colour", "--help"}, []string{"--colour", "red"}},
		{"unknown output", 2, []string{"table, wide or json"}, []string{"-o", "yaml"}},
		{"stray word", 2, []string{"stray"}, []string{"stray"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := u.run(append([]string{"connectors", "add", "--name", "docs", "--type", "file", "--user", "1", "--config", folder}, c.args...)...)
			require.Equal(t, c.code, out.code, out.stderr)
			require.Empty(t, out.stdout)
			for _, say := range c.says {
				require.Contains(t, out.stderr, say)
			}
			require.NotContains(t, out.stderr, "SQLSTATE")
			if c.name == "type without default" || strings.Contains(c.name, "without cron") || c.name == "unknown type" {
				return // `update` has no defaults, and may change the zone and the policies of a schedule that stands
			}
			changed := u.run(append([]string{"connectors", "update", "1"}, c.args...)...)
			require.Equal(t, c.code, changed.code, changed.stderr)
		})
	}
}

func TestUsageErrorsExitWith2(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	for _, c := range []struct {
		args string
		says string
	}{
		{"nonsense", "no command"},
		{"connectors", "needs a command: add, delete"},
		{"connectors lst", "did you mean"},
		{"connectors add --name x", "required flag"},
		{"connectors get", "needs one ID"},
		{"connectors get 1 2", "needs one ID"},
		{"connectors delete 1", "add --yes"},
		{"connectors delete", "at least one ID"},
		{"connectors trigger 1 2 --wait", "goes with one connector"},
		{"connectors get 0", "1 or more"},
		{"connectors get 99999999999", "1 or more"},
		{"connectors update 1", "nothing to change"},
		{"connectors update 1 -o json", "nothing to change"},
		{"connectors list --status GONE", "PENDING, SYNCING"},
		{"connectors trigger 1 --timeout 1s", "--wait"},
		{"connectors trigger 1 --wait --timeout soon", "soon"},
		{"runs 1 --limit 0", "1 to 10000"},
		{"runs 1 2", "needs one ID"},
		{"runs --verdict broken", `--verdict "broken": must be of running, completed`},
		{"runs --since soon", "write how long ago, such as 90m"},
		{"runs --since 4000d", "at most 3650d"},
		{"runs --since 2026-11-01", "2026-11-23T09:00:00Z"},
		{"runs --since 1h --until 2h", "--since 1h: must be before --until 2h"},
		{"runs --owner 0", "--owner 0: must be a user's number, 1 or more"},
		{"runs --limit 10001", "1 to 10000"},
		{"runs --cursor 7", `--cursor "7": must be the ` + "`next`"},
		{"runs 1 --cursor ended/2026-11-01T00:00:00.000000Z/00000000-0000-0000-0000-000000000000", "paged with --until"},
		{"runs 1 --type web", "leave them out where one is named"},
		{"runs show", "needs one RUN_ID"},
		{"runs show 0b6f1c", `RUN_ID "0b6f1c": must be 8 characters or more`},
		{"runs show zzzzzzzz", `RUN_ID "zzzzzzzz"`},
		{"runs stats --limit 0", "1 to 10000"},
		{"runs stats --until 2d", "--until 2d: needs --since"},
		{"runs stats 1 --owner 1", "leave them out"},
		{"why", "needs one ID"},
		{"search words", "--user: must be the number"},
		{"search --user 1", "needs words"},
		{"search --user 0 words", "1 or more"},
		{"search --user 1 words --limit 0", "1 to 100"},
		{"types", "add, list"},
		{"types add", "needs one NAME"},
		{"types add wiki --default-refresh manual", "0 for once"},
		{"migrate", "down, status, up"},
		{"migrate down", "add --yes"},
		{"migrate down --all", "add --yes"},
		{"migrate down --yes now", "now"},
		{"help nonsense", "no command"},
		{"help connectors lst", "did you mean"},
		{"completion nonsense", "nonsense"},
		{"types add Wiki", `NAME "Wiki": must match`},
		{"types add wiki --max-concurrent -1", "--max-concurrent -1"},
		{"documents", "needs one ID"},
		{"documents 1 --limit 0", "1 to 10000"},
		{"dlq", "drop, list, replay, show"},
		{"dlq list --limit 10001", "1 to 10000"},
		{"dlq list --subject docs..x", "must be a subject"},
		{"dlq list --connector 0", "1 or more"},
		{"dlq show", "needs one ID"},
		{"dlq show 0", "1 or more"},
		{"dlq show seven", `ID "seven"`},
		{"dlq replay", "or --all"},
		{"dlq replay 1 2", "needs one ID"},
		{"dlq replay 1 --all", "not both"},
		{"dlq replay 1 --connector 3", "go with --all"},
		{"dlq replay --connector 3", "go with --all"},
		{"dlq replay --all --connector -3", "1 or more"},
		{"dlq drop --all", "add --yes"},
		{"migrate sideways", "no command"},
		{"status now", "now"},
	} {
		t.Run(c.args, func(t *testing.T) {
			out := u.run(strings.Fields(c.args)...)
			require.Equal(t, 2, out.code, out.stderr)
			require.Contains(t, out.stderr, c.says)
			require.Contains(t, out.stderr, "--help`")
			require.Empty(t, out.stdout)
		})
	}
}

func TestEveryCommandHelpsWithAnExample(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	for _, command := range []string{
		"", "connectors add", "connectors list", "connectors get", "connectors update", "connectors enable",
		"connectors disable", "connectors delete", "connectors trigger", "types list", "types add", "runs", "runs show", "runs stats", "documents", "why", "search",
		"dlq list", "dlq show", "dlq replay", "dlq drop", "help", "migrate up", "migrate down", "migrate status", "status",
	} {
		require.Contains(t, u.succeed(append(strings.Fields(command), "--help")...), "Examples:", command)
	}
}

func TestListFiltersAndShowsATable(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	require.Contains(t, u.succeed("connectors", "list"), "no connectors")
	require.Empty(t, u.array("connectors", "list"))
	u.add("--name", "first\x1b[31m")
	u.add("--type", "web", "--user", "2", "--config", site, "--refresh", "7d")
	u.succeed("connectors", "disable", "2")
	narrow := u.succeed("connectors", "list")
	require.Regexp(t, `(?m)^2 +docs +web +DISABLED .*\n    disabled by the user$`, narrow)
	fits(t, narrow)
	lines := strings.Split(strings.TrimSpace(u.succeed("connectors", "list", "-o", "wide")), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], "NEXT SYNC")
	require.NotContains(t, lines[1], "\x1b")
	require.Contains(t, lines[2], "disabled by the user")
	require.Len(t, u.array("connectors", "list"), 2)
	require.Len(t, u.array("connectors", "list", "--type", "web"), 1)
	require.Len(t, u.array("connectors", "list", "--status", "disabled"), 1)
	require.Len(t, u.array("connectors", "list", "--user", "1"), 1)
	require.Empty(t, u.array("connectors", "list", "--user", "3"))
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	config := `{"url":"https://ann:hunter2@example.org/?access_token=hunter2&page=1","api_key":"hunter2","accessToken":"hunter2",
		"auth":{"client_secret":"hunter2","user":"ann"},"credentials":{"a":"hunter2"},"list":[{"password":"hunter2"}],
		"keywords":["zebra"],"keep_password":true,"big":12345678901234567890}`
	added := u.succeed("connectors", "add", "--name", "x", "--type", "web", "--user", "1", "--no-config-check", "--config", config, "-o", "json")
	for _, shown := range []string{
		added, u.succeed("connectors", "get", "1"), u.succeed("connectors", "get", "1", "-o", "json"),
		u.succeed("connectors", "list", "-o", "json"), u.succeed("connectors", "update", "1", "--name", "y", "-o", "json"),
	} {
		require.NotContains(t, shown, "hunter2")
		for _, kept := range []string{"zebra", "ann", "12345678901234567890", "REDACTED"} {
			require.Contains(t, shown, kept)
		}
		require.NotContains(t, shown, `"keep_password": "REDACTED"`)
	}
}

func TestUpdateChangesOnlyWhatIsGiven(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "1h", "--scope", "group", "--scope-id", "sales", "--max-retries", "3")
	before := u.object("connectors", "get", "1")
	after := u.object("connectors", "update", "1", "--name", "papers")
	require.Equal(t, "papers", after["name"])
	for _, field := range []string{
		"type", "user_id", "scope", "scope_id", "config", "refresh_freq_minutes", "max_retries", "config_version", "next_sync_at",
	} {
		require.Equal(t, before[field], after[field], field)
	}
	require.Nil(t, u.object("connectors", "update", "1", "--scope", "org")["scope_id"], "no group is left over")
	after = u.object("connectors", "update", "1", "--cron", "@daily", "--time-zone", "Europe/Berlin")
	require.Nil(t, after["refresh_freq_minutes"])
	require.Equal(t, "@daily", after["schedule_cron"])
	require.Nil(t, after["dst_gap"])
	after = u.object("connectors", "update", "1", "--cron", "H H * * friL", "--dst-gap", "before", "--dst-overlap", "both")
	require.Equal(t, []any{"before", "both"}, []any{after["dst_gap"], after["dst_overlap"]})
	require.Contains(t, u.succeed("connectors", "get", "1"), "H H * * friL Europe/Berlin, gap before, overlap both")
	after = u.object("connectors", "update", "1", "--dst-gap", "default", "--dst-overlap", "default")
	require.Equal(t, []any{nil, nil}, []any{after["dst_gap"], after["dst_overlap"]})
	after = u.object("connectors", "update", "1", "--deadline", "2h", "--overlap", "queue", "--once-per", "day", "--catch-up", "all",
		"--catch-up-most", "3", "--catch-up-window", "1d")
	require.Equal(t, []any{120.0, "queue", "day", "all", 3.0, 1440.0}, []any{after["deadline_minutes"], after["overlap"], after["once_per"],
		after["catch_up"], after["catch_up_most"], after["catch_up_minutes"]})
	require.Contains(t, u.succeed("connectors", "get", "1"),
		"deadline 2h, once per day, in flight: queue, catch up: all, at most 3, catch up the last 1d")
	after = u.object("connectors", "update", "1", "--deadline", "none", "--once-per", "none", "--catch-up-window", "none", "--spread", "25%")
	require.Equal(t, []any{nil, nil, nil, 25.0, "queue"}, []any{after["deadline_minutes"], after["once_per"], after["catch_up_minutes"],
		after["spread_percent"], after["overlap"]})
	after = u.object("connectors", "update", "1", "--refresh", "2h", "--type", "web", "--config", site,
		"--scope", "user", "--scope-id", "")
	require.Nil(t, after["schedule_cron"])
	require.Nil(t, after["scope_id"])
	require.Equal(t, "web", after["type"])
	require.NotEqual(t, before["config_version"], after["config_version"])
	require.Contains(t, u.succeed("connectors", "update", "1", "--user", "4"), "connector 1 is changed")

	out := u.run("connectors", "update", "1", "--type", "file")
	require.Equal(t, 2, out.code, "the configuration that stands is another type's")
	require.Contains(t, out.stderr, "--config, for type file: ")
	require.NotContains(t, out.stderr, "update the connector")
	require.Equal(t, "web", u.object("connectors", "get", "1")["type"])
	u.succeed("connectors", "update", "1", "--type", "file", "--no-config-check")
	u.succeed("connectors", "update", "1", "--name", "what stands may be renamed")
}

func TestDisableEnableDelete(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "1h")
	require.Contains(t, u.succeed("connectors", "disable", "1"), "connector 1 is disabled")
	require.Contains(t, u.succeed("connectors", "disable", "1"), "already")
	out := u.run("connectors", "trigger", "1")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "connectors enable 1")
	require.Equal(t, "ACTIVE", u.object("connectors", "enable", "1")["status"])
	require.Contains(t, u.succeed("connectors", "trigger", "1"), "why 1")
	require.NotEmpty(t, u.object("connectors", "trigger", "1")["trigger_requested_at"])
	require.Equal(t, true, u.object("connectors", "delete", "1", "--yes")["deleted"])
	u.add()
	require.Contains(t, u.succeed("connectors", "delete", "2", "--yes"), "deleted connector 2 (docs)")
}

func TestAConnectorIsNamedByItsNumberOrItsName(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	for _, name := range []string{"mine", "twice", "twice", "7"} {
		u.add("--name", name, "--refresh", "manual")
	}
	require.Equal(t, "mine", u.object("connectors", "get", "mine")["name"])
	for _, command := range []string{"why mine", "runs mine", "documents mine", "connectors update mine --refresh 2h"} {
		u.succeed(strings.Fields(command)...)
	}
	require.Len(t, u.array("connectors", "disable", "mine", "2", "3"), 3)
	require.Equal(t, "connector 1 is enabled\nconnector 2 is enabled\n", u.succeed("connectors", "enable", "mine", "2"))
	require.Len(t, u.array("connectors", "trigger", "mine", "2"), 2)
	out := u.run("why", "twice")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, `several connectors are named "twice"; give the number of one: 2 (file, user 1), 3 (file, user 1)`)
	require.Contains(t, u.run("why", "nobody").stderr, `there is no connector "nobody"; `+"`echomind connectors list`")
	require.Contains(t, u.run("connectors", "get", "7").stderr, "there is no connector 7", "a number is never a name")

	out = u.run("connectors", "delete", "9", "mine", "2", "--yes")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "there is no connector 9")
	require.Contains(t, out.stdout, "deleted connector 1 (mine)")
	require.Contains(t, out.stdout, "deleted connector 2 (twice)")
	require.Len(t, u.array("connectors", "list"), 2)
}

func TestTheShellIsOfferedWhatACommandTakes(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--name", "mine")
	u.add("--name", "papers")
	for _, c := range []struct {
		line    string
		offered []string
	}{
		{"why ", []string{"1\tmine", "2\tpapers"}},
		{"why mi", []string{"mine\tfile"}},
		{"connectors delete 1 ", []string{"1\tmine", "2\tpapers"}},
		{"why 1 ", nil},
		{"connectors list --status ", []string{"ACTIVE"}},
		{"connectors list --type ", []string{"google_drive"}},
		{"connectors add --scope ", []string{"group"}},
		{"runs 1 -o ", []string{"wide"}},
		{"dlq show ", nil},
		{"runs ", []string{"1\tmine", "show\tShow all that the ledger knows of a run"}},
		{"runs --verdict ", []string{"failed", "running"}},
		{"runs stats ", []string{"1\tmine"}},
		{"runs show ", nil},
		{"status ", nil},
	} {
		words := append([]string{"__complete"}, strings.Split(c.line, " ")...)
		out := u.run(words...)
		require.Equal(t, 0, out.code, c.line)
		require.Contains(t, out.stderr, "ShellCompDirectiveNoFileComp", c.line)
		lines := strings.Split(strings.TrimSpace(out.stdout), "\n")
		for _, word := range c.offered {
			require.Contains(t, lines, word, c.line)
		}
		if c.offered == nil {
			require.Len(t, lines, 1, c.line)
		}
	}
	require.Contains(t, u.succeed("--help"), "completion", "it can be found")
}

func TestWhatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	for _, command := range []string{
		"connectors get 7", "connectors update 7 --name x", "connectors enable 7", "connectors disable 7",
		"connectors delete 7 --yes", "connectors trigger 7", "connectors trigger 7 --wait", "runs 7", "why 7", "documents 7",
	} {
		out := u.run(strings.Fields(command)...)
		require.Equal(t, 1, out.code, command)
		require.Contains(t, out.stderr, "there is no connector 7", command)
		require.Empty(t, out.stdout, command)
	}
}
