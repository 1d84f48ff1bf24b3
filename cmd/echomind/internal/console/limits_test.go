package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALimitOfAKeyIsWrittenByAnAdministratorAndExplained(t *testing.T) {
	u := newTerminal(t)
	admin, person := u.as("echomind_administrator"), u.as(consoleRole)
	require.Contains(t, person.run("limits", "set", "onedrive:tenant-42", "1").stderr, "must be a member of role echomind_administrator")
	require.Contains(t, admin.succeed("limits", "set", "onedrive:tenant-42", "1"), "key onedrive:tenant-42: at most 1 in flight")
	for _, bad := range [][]string{{"limits", "set", "a b", "1"}, {"limits", "set", "k", "-1"}, {"limits", "set", "k", "10001"}, {"limits", "set", "k", "x"}, {"limits", "set", "k"},
		{"limits", "set", strings.Repeat("k", 129), "1"}, {"limits", "remove", ":k"}} {
		require.Equal(t, 2, admin.run(bad...).code, bad)
	}
	require.Contains(t, admin.run("limits", "set", "k", "x").stderr, `N "x": must be a number from 0 to 10000`)

	require.Equal(t, 2, admin.run("limits", "set", "none", "1").code, "it means that there is no key")
	for _, bad := range []string{"", "a,,b", "https://joe:secret@host/x"} {
		require.Equal(t, 2, person.run("types", "add", "file", "--key", bad).code, bad)
		require.Equal(t, 2, person.run("connectors", "add", "--name", "x", "--type", "file", "--user", "1", "--config", `{"url":"file:///srv"}`, "--refresh", "1h", "--key", bad).code, bad)
	}
	require.NotContains(t, person.run("types", "add", "file", "--key", "https://joe:secret@host/x").stderr, "secret")
	require.Equal(t, 2, admin.run("types", "add", "tidy", "--system", "--key", "a").code, "it has none")
	require.Regexp(t, `--key key `, person.succeed("connectors", "add", "--help"))

	add := func(name string, keys ...string) {
		args := []string{"connectors", "add", "--name", name, "--type", "file", "--user", "1", "--config", `{"url":"file:///srv"}`, "--refresh", "1h"}
		for _, key := range keys {
			args = append(args, "--key", key)
		}
		person.succeed(args...)
	}
	add("first", "onedrive:tenant-42", "b")
	add("second", "onedrive:tenant-42")
	require.Equal(t, []any{"onedrive:tenant-42", "b"}, person.object("connectors", "get", "first")["concurrency_keys"])
	require.Equal(t, 2, person.run("connectors", "update", "first", "--key", "a b").code)
	require.Equal(t, 2, person.run("connectors", "update", "first", "--key", "a,b,c,d,e").code)
	require.Equal(t, []any{"file"}, person.object("types", "add", "file", "--key", "file")["concurrency_keys"])
	require.Regexp(t, `file +source .* file +-\n`, person.succeed("types", "list"))
	require.Nil(t, person.object("types", "add", "file", "--key", "none")["concurrency_keys"])
	require.Regexp(t, `concurrency keys +onedrive:tenant-42, b\n`, person.succeed("connectors", "get", "first"))

	u.service("echomind-scheduler")
	u.exec(`INSERT INTO key_places (key, run_id, connector_id, user_id) VALUES ('onedrive:tenant-42', gen_random_uuid(), 1, 1)`)
	u.exec(`SELECT moves.park(array_agg(id), array_agg('onedrive:tenant-42'::text)) FROM connectors WHERE name = 'second'`)
	why := person.object("why", "second")
	require.Equal(t, "waits_for_key", why["cause"])
	require.Contains(t, why["why"], "concurrency key onedrive:tenant-42 is full: 1 run in flight")
	listed := person.array("limits", "list")
	require.InDelta(t, 1, listed[0]["held"], 0)
	require.InDelta(t, 1, listed[0]["waiting"], 0)
	require.Contains(t, person.succeed("limits", "list"), "onedrive:tenant-42")
	require.Regexp(t, `KEY WAITED FOR.*\n.*onedrive:tenant-42 +1 +1 +1`, person.run("status").stdout)
	require.Equal(t, "onedrive:tenant-42", person.object("connectors", "get", "second")["waits_for_key"])
	require.Regexp(t, `waits for key +onedrive:tenant-42\n`, person.succeed("connectors", "get", "second"))
	require.Regexp(t, `second .* waits for key `, person.succeed("connectors", "list"))

	person.succeed("connectors", "update", "second", "--key", "none")
	require.Nil(t, person.object("connectors", "get", "second")["waits_for_key"])
	admin.succeed("limits", "set", "onedrive:tenant-42", "7")
	require.InDelta(t, 7, person.array("limits", "list")[0]["most"], 0)
	require.Contains(t, admin.succeed("limits", "remove", "onedrive:tenant-42"), "has no limit any more")
	require.Contains(t, admin.run("limits", "remove", "onedrive:tenant-42").stderr, "has no limit; `echomind limits list` shows those there are")
	require.Equal(t, "limits.create,limits.update,limits.delete", u.row(`SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE object_id = 'onedrive:tenant-42'`))
}
