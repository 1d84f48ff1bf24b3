package console_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestTypesAreListedAndWrittenTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	u.same("types", "list")
	of := func(name string) string {
		return u.row(`SELECT (to_jsonb(t) - 'name')::text FROM connector_types t WHERE name = $1`, name)
	}
	twin := strings.NewReplacer("there", "here")
	for _, flags := range [][]string{
		{"--kind", "job", "--default-refresh", "6h"}, {"--max-concurrent", "3"}, {"--key", "a", "--key", "b:c"}, {"--provider", "acme"}, {"--default-refresh", "0"}, {"--key", "none"}, {"--provider", "none"},
		{"--kind", "source"}, {"--system"}, {"--provider", "A b"}, {"--kind", "both"}, {"--default-refresh", "manual"}, {"--max-concurrent", "-1"},
	} {
		want, got := u.run(slices.Concat([]string{"types", "add", "here"}, flags)...), u.through(slices.Concat([]string{"types", "add", "there"}, flags)...)
		require.Equal(t, want, output{twin.Replace(got.stdout), twin.Replace(got.stderr), got.code}, "%v", flags)
		require.Equal(t, of("here"), of("there"), "%v", flags)
	}
	for _, flags := range [][]string{{"--system", "--default-refresh", "1h"}, {"--max-concurrent", "2"}, {"--key", "x"}, {"--system"}} {
		want, got := u.run(slices.Concat([]string{"types", "add", "mine_here"}, flags)...), u.through(slices.Concat([]string{"types", "add", "mine_there"}, flags)...)
		require.Equal(t, want, output{twin.Replace(got.stdout), twin.Replace(got.stderr), got.code}, "%v", flags)
		require.Equal(t, of("mine_here"), of("mine_there"), "%v", flags)
	}
	u.same("types", "add", "Wiki")
	u.same("types", "add", "ledger_retention")
	u.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('ledger_retention', 'job', true, 0)`)
	for _, flags := range [][]string{{"--max-concurrent", "5"}, {"--max-concurrent", "-1"}, {"--max-concurrent", "0"}, {"--key", "a"}, {"--key", "none"}, {"--kind", "source"}, {"--default-refresh", "1h"}, {}} {
		u.same(slices.Concat([]string{"types", "add", "ledger_retention"}, flags)...)
	}
	require.Equal(t, "60 0", u.row(`SELECT concat_ws(' ', default_refresh_minutes, max_concurrent_syncs, concurrency_keys) FROM connector_types WHERE name = 'ledger_retention'`))
	u.same("types", "list")
	t.Setenv("ECHOMIND_TOKEN", u.token(7, identity.User))
	u.same("types", "list")
	u.refused(1, "add the connector type: 403 ", "types", "add", "wiki")
}

func TestLimitsOfKeysAreListedAndWrittenTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	u.same("limits", "list")
	wrote := regexp.MustCompile(`"(created|updated)_(at|by)": "[^"]+"`)
	for _, args := range [][]string{
		{"set", "KEY", "4"}, {"set", "KEY", "0"}, {"set", "KEY", "10001"}, {"set", "a b", "1"}, {"set", "none", "1"}, {"remove", "a b"}, {"remove", "other"},
	} {
		for _, form := range []string{"table", "json"} {
			named := func(key string) []string {
				args := append([]string{"limits"}, args...)
				args[2] = strings.Replace(args[2], "KEY", key, 1)
				if args[1] == "set" {
					args = append(args, "-o", form)
				}
				return args
			}
			want, got := u.run(named("gpu/1")...), u.through(named("gpu/2")...)
			got.stdout = strings.ReplaceAll(got.stdout, "gpu/2", "gpu/1")
			want.stdout, got.stdout = wrote.ReplaceAllString(want.stdout, "$1"), wrote.ReplaceAllString(got.stdout, "$1")
			require.Equal(t, want, got, "%v", args)
		}
	}
	u.exec(`INSERT INTO key_places (key, run_id, connector_id, user_id) SELECT 'gpu/1', gen_random_uuid(), 1, 1 FROM generate_series(1, 1200)`)
	u.exec(`INSERT INTO concurrency_limits (key, most) SELECT 'k' || i, i FROM generate_series(1, 210) i`)
	u.same("limits", "list")
	require.Regexp(t, `(?m)^gpu/1 +0 +1200 +0$`, u.works("limits", "list"))
	require.Equal(t, "user 1", u.row(`SELECT updated_by FROM concurrency_limits WHERE key = 'gpu/2'`))
	require.Equal(t, "key gpu/1 has no limit any more\n", u.works("limits", "remove", "gpu/1"))
	u.same("limits", "remove", "gpu/1")
	t.Setenv("ECHOMIND_TOKEN", u.token(9, identity.Admin))
	u.same("limits", "list")
	u.refused(1, "set the limit: 403 ", "limits", "set", "gpu/1", "1")
	t.Setenv("ECHOMIND_TOKEN", u.token(7, identity.User))
	u.refused(1, "list the limits: 403 ", "limits", "list")
}

func TestCalendarsBlackoutWindowsAndConditionsAreShownTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	for _, args := range [][]string{{"calendars", "list"}, {"blackouts", "list"}, {"conditions", "list"}} {
		u.same(args...)
	}
	u.exec(`INSERT INTO calendars (name, time_zone, entries, created_by, updated_by) VALUES
		('always', 'UTC', '[{"name": "always\u001b[31m", "start": "2020-01-01", "rule": "FREQ=DAILY"}]', 'ann', E'b\x1b[31men'),
		('busy', 'Europe/Berlin', '[{"name": "day", "start": "2030-01-01"}, {"name": "off", "start": "2030-01-01", "end": "2030-01-03", "rule": "FREQ=YEARLY", "also": ["2031-05-01"], "not": ["2032-01-01"], "except": true}]', NULL, NULL),
		('later', 'UTC', '[{"name": "day", "start": "2030-01-01T12:00", "end": "2030-01-01T13:00", "time_zone": "Asia/Tokyo"}]', NULL, NULL), ('spoiled', 'UTC', '[]', NULL, NULL)`)
	u.exec(`INSERT INTO calendars (name, time_zone, entries) SELECT 'c' || to_char(i, 'FM000'), 'UTC', '[]' FROM generate_series(1, 210) i`)
	u.force(`UPDATE calendars SET entries = '[{"name": 7}]' WHERE name = 'spoiled'`)
	u.force(`UPDATE calendars SET entries = '[{"name": "x", "start": "some day"}]' WHERE name = 'c001'`)
	u.add("--cron", "0 3 * * *", "--calendar", "busy")
	u.succeed("types", "add", "word_count", "--kind", "job")
	u.exec(`INSERT INTO conditions (name, query, user_ids, timeout_ms, created_by) VALUES ('changed', E'SELECT true\n  -- \x1b[31m', '{7,3}', 500, 'ann'), ('other', 'SELECT false', NULL, 2000, NULL)`)
	u.succeed("connectors", "add", "--name", "count", "--type", "word_count", "--user", "7", "--refresh", "1h", "--condition", "changed")
	u.succeed("blackouts", "set", "office", "--calendar", "always", "--mode", "defer", "--user", "7", "--except", "1", "--except", "2")
	u.succeed("blackouts", "set", "later", "--calendar", "later", "--mode", "skip", "--type", "web", "--spread", "1h")
	u.exec(`INSERT INTO blackout_holds (connector_id, asked, blackout, version, until, spread) VALUES (1, false, 'office', 1, now() + interval '1 h', '1 min')`)
	u.exec(`UPDATE calendars SET created_at = now() - interval '73 h'`)
	for _, args := range [][]string{
		{"calendars", "list"}, {"calendars", "show", "always"}, {"calendars", "show", "busy"}, {"calendars", "show", "later"}, {"calendars", "show", "c001"}, {"calendars", "show", "none"}, {"calendars", "show", "No"}, {"calendars", "show"},
		{"blackouts", "list"}, {"conditions", "list"}, {"conditions", "show", "changed"}, {"conditions", "show", "other"}, {"conditions", "show", "none"}, {"conditions", "show", "a/b"},
	} {
		u.same(args...)
	}
	require.Contains(t, u.works("calendars", "list"), "busy")
	require.NotContains(t, u.works("calendars", "show", "always")+u.works("conditions", "show", "changed")+u.works("conditions", "list", "-o", "json"), "\x1b")
	spoiled := u.run("calendars", "show", "spoiled")
	require.Equal(t, 0, spoiled.code, spoiled.stderr)
	require.Equal(t, spoiled, u.through("calendars", "show", "spoiled"))

	t.Setenv("ECHOMIND_TOKEN", u.token(9, identity.Admin))
	require.Regexp(t, `(?m)^changed +3,7 +500ms +1 +-$`, u.works("conditions", "list"))
	require.Nil(t, told[map[string]any](u, "conditions", "show", "changed")["query"])
	t.Setenv("ECHOMIND_TOKEN", u.token(7, identity.User))
	require.Regexp(t, `(?m)^busy +Europe/Berlin +2 +- +-$`, u.works("calendars", "list"))
	require.Regexp(t, `(?m)^office +always +user 7 +defer +stands, without an end +- +-$`, u.works("blackouts", "list"))
	u.refused(1, "list the conditions: 403 ", "conditions", "list")
}

func TestUsersAreListedTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	u.same("users", "list")
	u.same("users", "links")
	u.exec(`INSERT INTO users (user_id, role) VALUES (7, 'admin'), (30, 'user')`)
	u.exec(`INSERT INTO group_members (user_id, group_id, leads) SELECT i, 'g' || i % 3, i % 2 = 0 FROM generate_series(5, 600) i`)
	u.exec(`INSERT INTO identities (issuer, subject, user_id, made_at) VALUES ('https://id.example', E'a\x1b[31m', 7, NULL), ('https://id.example', 'b', NULL, NULL), ('header:x-user', 'z', 12, '2026-01-02T03:04:05Z')`)
	for _, args := range [][]string{{"list"}, {"links"}, {"links", "--user", "7"}, {"links", "--user", "8"}} {
		u.same(append([]string{"users"}, args...)...)
	}
	require.NotContains(t, u.works("users", "links"), "\x1b")
	t.Setenv("ECHOMIND_TOKEN", u.token(7, identity.Admin))
	u.refused(1, "list the users: 403 ", "users", "list")
	u.refused(1, "list whom issuers sign in: 403 ", "users", "links")
}

func TestUsersAreWrittenTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	said := func(user int) string {
		return u.row(`SELECT concat_ws(' ', (SELECT role FROM users WHERE user_id = $1), (SELECT string_agg(group_id || leads, ',' ORDER BY group_id) FROM group_members WHERE user_id = $1),
			(SELECT count(*) FROM identities WHERE user_id = $1), EXISTS (SELECT FROM removed_users WHERE user_id = $1), (SELECT count(*) FROM access_tokens WHERE user_id = $1 AND revoked_at IS NULL))`, user)
	}
	u.token(71, identity.User)
	u.token(72, identity.User)
	twin, notes := strings.NewReplacer("72", "71", "there", "here"), `SELECT string_agg(action, ' ' ORDER BY id) FROM audit WHERE source = $1 AND action ~ '^(users|groups|identities|tokens)'`
	before := u.row(`SELECT max(id)::text FROM audit`)
	for _, command := range []string{
		"set USER --role admin", "set USER --member eng,ops --lead docs", "set USER --lead eng --leave ops,none", "set USER --role user --member eng", "set USER --leave eng,docs",
		"set USER --role boss", "set USER --member a/b", "set USER", "set 0 --role user", "link USER --issuer https://id.example --subject WHERE", "link USER --issuer https://id.example --subject WHERE",
		"link USER --issuer https://id.example", "unlink --issuer https://id.example --subject WHERE", "unlink --issuer https://id.example --subject nobody",
		"link USER --issuer header:x-user --subject WHERE", "remove USER", "remove USER", "set USER --member eng", "set USER --leave eng", "link USER --issuer header:x-user --subject WHERE",
	} {
		for _, form := range []string{"table", "json"} {
			args := func(user, where string) []string {
				return slices.Concat([]string{"users"}, strings.Fields(strings.NewReplacer("USER", user, "WHERE", where).Replace(command)), []string{"-o", form})
			}
			want, got := u.run(args("71", "here")...), u.through(args("72", "there")...)
			require.Equal(t, want, output{twin.Replace(got.stdout), twin.Replace(got.stderr), got.code}, command)
			require.Equal(t, said(71), said(72), command)
		}
	}
	require.Equal(t, u.row(notes, "console"), u.row(notes, "api"))
	require.NotEmpty(t, u.row(notes, "api"))
	require.Equal(t, "1", u.row(`SELECT string_agg(DISTINCT user_id::text, ',') FROM audit WHERE source = 'api' AND id > $1::bigint`, before))
	u.refused(1, "set user 7: 422 ", "users", "set", "7", "--member", strings.TrimSuffix(strings.Repeat("g,", 1001), ","))
	t.Setenv("ECHOMIND_TOKEN", u.token(9, identity.Admin))
	for _, command := range []string{"set 9 --role superadmin", "remove 8", "link 9 --issuer https://id.example --subject x", "unlink --issuer header:x-user --subject here"} {
		u.refused(1, ": 403 ", slices.Concat([]string{"users"}, strings.Fields(command))...)
	}
}

func TestRunsOfAnOwnerAreTheSameThroughAServer(t *testing.T) {
	u := fleet(t).withStreams().fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	moment := regexp.MustCompile(`("since"|"until"): "[^"]+"`)
	owners := u.row(`SELECT string_agg(DISTINCT user_id::text, ' ') FROM connectors WHERE user_id IS NOT NULL`)
	for _, owner := range append(strings.Fields(owners), "99") {
		u.same("runs", "--owner", owner)
		u.same("runs", "--owner", owner, "--verdict", "failed,missed")
		u.same("runs", "--owner", owner, "--type", "web")
		for _, form := range []string{"table", "json"} {
			args := []string{"runs", "stats", "--owner", owner, "-o", form}
			want, got := u.run(args...), u.through(args...)
			want.stdout, got.stdout = moment.ReplaceAllString(want.stdout, "$1"), moment.ReplaceAllString(got.stdout, "$1")
			require.Equal(t, want, got, "%v", args)
		}
	}
	u.same("runs", "--owner", "0")
	u.same("runs", "stats", "--owner", "0")
}

func TestADocumentWhoseNameIsMaskedIsAPlaceThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.add("--refresh", "manual")
	u.add("--name", "other", "--refresh", "manual")
	u.exec(`INSERT INTO documents (connector_id, source_id, title, url, status, chunk_count, updated_at, config_version)
		SELECT c, 'https://example.org/' || to_char(i, 'FM0000') || CASE WHEN i % 2 = 0 THEN '?token=s3cret' ELSE '' END, 'Title', '', 'stored', 3, now() - interval '3 d', 1000000
		FROM generate_series(1, 700) i, generate_series(1, 2) c`)
	u.signedIn(u.token(1, identity.Superadmin))
	for _, limit := range []string{"1", "2", "3", "600", "700"} {
		u.same("documents", "1", "--limit", limit)
	}
	place := regexp.MustCompile(`--after '(id:\d+)'`).FindStringSubmatch(u.works("documents", "1", "--limit", "600"))
	require.NotNil(t, place)
	u.same("documents", "1", "--limit", "2", "--after", place[1])
	require.Contains(t, u.works("documents", "1", "--limit", "2", "--after", place[1], "-o", "json"), "/0601")
	u.same("documents", "2", "--limit", "2", "--after", place[1])
	u.same("documents", "1", "--after", "id:99999999")
	u.same("documents", "1", "--after", "id:x")
}

func TestTheStatusIsTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.succeed("types", "add", "tidy", "--system", "--default-refresh", "1h")
	u.succeed("connectors", "add", "--name", "tidy", "--type", "tidy", "--scope", "system", "--refresh", "2h")
	u.succeed("types", "add", "tidied", "--system", "--default-refresh", "1h")
	u.succeed("connectors", "add", "--name", "tidied", "--type", "tidied", "--scope", "system", "--refresh", "2h")
	u.add("--refresh", "manual")
	u.add("--name", "other", "--refresh", "manual")
	u.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, result, config_version)
		SELECT gen_random_uuid(), id, 'tidy', 'new', now(), now(), now() - interval '73 h', 'completed', '{"removed": 3, "a": "b\u001b[31m"}', 1 FROM connectors WHERE type = 'tidy'`)
	u.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('gpu', 1)`)
	u.exec(`INSERT INTO key_waiters (connector_id, key, user_id, due_at) SELECT id, 'gpu', 1, now() - interval '73 h' FROM connectors WHERE type = 'file'`)
	u.force(`UPDATE connectors SET next_sync_at = now() + interval '73 h' WHERE type LIKE 'tid%'`)
	u.exec(`UPDATE status_events SET at = now() - interval '73 h'`)
	u.signedIn(u.token(1, identity.Superadmin))
	// Where it is, and who is connected at the moment, is another thing for each who asks.
	without := func(out output) output {
		var found map[string]any
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &found), out)
		require.NotEmpty(t, found["services"])
		for _, name := range []string{"urls", "services", "ready"} {
			delete(found, name)
		}
		text, err := json.MarshalIndent(found, "", " ")
		require.NoError(t, err)
		return output{string(text), out.stderr, out.code}
	}
	require.Equal(t, without(u.run("status", "-o", "json")), without(u.through("status", "-o", "json")))
	below := func(out output) output {
		_, out.stdout, _ = strings.Cut(out.stdout, "\nSTREAM ")
		return out
	}
	want, got := u.run("status"), u.through("status")
	require.Equal(t, below(want), below(got))
	require.NotEmpty(t, below(got).stdout)
	require.NotContains(t, got.stdout, "\x1b")
	require.Regexp(t, fmt.Sprintf(`^server +%s\n\nSERVICE +CONNECTIONS .*\napi +`, regexp.QuoteMeta(u.server.URL)), got.stdout)
	for _, role := range []identity.Role{identity.User, identity.Admin} {
		t.Setenv("ECHOMIND_TOKEN", u.token(9, role))
		u.refused(1, "ask where the system stands: 403 ", "status")
	}
}

func TestAStatusThroughAServerWithoutNATSSaysSo(t *testing.T) {
	u := newAway(t)
	u.signedIn(u.token(1, identity.Superadmin))
	out := u.through("status")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stdout, "nats: it does not answer")
	require.Contains(t, out.stdout, "SERVICE")
	require.Equal(t, "echomind: not everything answers: see the problems above\n", out.stderr)
}

func TestStreamsAreShownByNATSURLThoughThereIsAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	t.Setenv("NATS_URL", u.lookup.NATSURL)
	u.same("streams", "show")
}
