package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABlackoutWindowIsWrittenByAnAdministratorAndExplained(t *testing.T) {
	u := newTerminal(t)
	admin, person := u.as("echomind_administrator"), u.as(consoleRole)
	u.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('always', 'UTC', '[{"name": "always", "start": "2020-01-01", "rule": "FREQ=DAILY"}]'),
		('never', 'UTC', '[]'), ('today', 'UTC', jsonb_build_array(jsonb_build_object('name', 'today', 'start', (clock_timestamp() AT TIME ZONE 'UTC')::date,
			'end', (clock_timestamp() AT TIME ZONE 'UTC')::date + 2)))`)
	require.Contains(t, person.run("blackouts", "set", "office", "--calendar", "always", "--mode", "defer").stderr, "must be a member of role echomind_administrator")
	for what, bad := range map[string][]string{
		`--calendar: must name`:            {"office", "--mode", "skip"},
		`--mode "stop": must be skip or`:   {"office", "--calendar", "always", "--mode", "stop"},
		`--calendar "none": there is none`: {"office", "--calendar", "none", "--mode", "skip"},
		`--type "ftp": there is none`:      {"office", "--calendar", "always", "--mode", "skip", "--type", "ftp"},
		`--provider "x": no type names it`: {"office", "--calendar", "always", "--mode", "skip", "--provider", "x"},
		`--user "0": must be a number`:     {"office", "--calendar", "always", "--mode", "skip", "--user", "0"},
		`--except "a": must be a number`:   {"office", "--calendar", "always", "--mode", "skip", "--except", "a"},
		`NAME "Office": must match`:        {"Office", "--calendar", "always", "--mode", "skip"},
		`must be 0 to 24h`:                 {"office", "--calendar", "always", "--mode", "skip", "--spread", "25h"},
	} {
		said := admin.run(append([]string{"blackouts", "set"}, bad...)...)
		require.Equal(t, 2, said.code, what)
		require.Contains(t, said.stderr, what)
	}

	person.succeed("connectors", "add", "--name", "first", "--type", "file", "--user", "7", "--config", `{"url":"file:///srv"}`, "--refresh", "1h")
	require.Contains(t, admin.succeed("blackouts", "set", "office", "--calendar", "always", "--mode", "defer", "--user", "7"),
		"blackout office: no sync of user 7 begins in the times of calendar always, mode defer; it stands, without an end\n")
	listed := person.array("blackouts", "list")
	require.Equal(t, true, listed[0]["stands"])
	require.Nil(t, listed[0]["until"])
	require.Contains(t, person.succeed("blackouts", "list"), "user 7")
	require.Contains(t, person.run("connectors", "trigger", "first").stderr, "waits: blackout `office` without an end; an administrator lets it run before: `echomind blackouts set office")
	require.Contains(t, admin.run("calendars", "delete", "always").stderr, "a blackout window has its times")

	u.service("echomind-scheduler")
	require.Contains(t, person.succeed("why", "first"), "blackout `office` without an end stands now: no run begins; slots within it wait for its end")
	admin.succeed("blackouts", "set", "office", "--calendar", "today", "--mode", "defer", "--user", "7")
	require.NotNil(t, person.array("blackouts", "list")[0]["until"])
	require.Contains(t, person.succeed("schedule", "preview", "first", "--next", "3d"), "behind blackout `office` until ")
	u.exec(`SELECT moves.hold_blackout(jsonb_build_array(jsonb_build_object('id', id, 'asked', false, 'until', (clock_timestamp() AT TIME ZONE 'UTC')::date + 2, 'blackout', 'office',
		'version', 1, 'spread', 0))) FROM connectors`)
	require.Equal(t, "in_blackout", person.object("why", "first")["cause"])
	require.InDelta(t, 1, person.array("blackouts", "list")[0]["held"], 0)

	admin.succeed("blackouts", "set", "office", "--calendar", "today", "--mode", "skip", "--user", "7", "--except", "1")
	require.NotContains(t, person.run("connectors", "trigger", "first").stderr, "blackout")
	require.Contains(t, admin.succeed("blackouts", "delete", "office"), "blackout office is deleted")
	require.Contains(t, admin.run("blackouts", "delete", "office").stderr, `there is no blackout window "office"; `)
	require.Equal(t, "blackouts.create,blackouts.update,blackouts.update,blackouts.delete", u.row(`SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE object_id = 'office'`))

	require.Contains(t, person.run("types", "add", "file", "--provider", "acme").stderr, "must be a member of role echomind_administrator")
	require.Equal(t, "acme", u.object("types", "add", "file", "--provider", "acme")["provider"])
	require.Nil(t, u.object("types", "add", "file", "--provider", "none")["provider"])
}
