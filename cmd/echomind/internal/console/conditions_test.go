package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAConditionIsWrittenByAnAdministratorTriedAndUsed(t *testing.T) {
	u := newTerminal(t)
	admin, person := u.as("echomind_administrator"), u.as(consoleRole)
	u.exec(`CREATE TABLE changes (n int NOT NULL); INSERT INTO changes VALUES (60)`)
	const query = `SELECT n >= ($1->>'least')::int FROM changes`
	refused := person.run("conditions", "add", "enough", "--query", query)
	require.Contains(t, refused.stderr, "must be a member of role echomind_administrator")
	require.Contains(t, admin.succeed("conditions", "add", "enough", "--query", query, "--users", "1,2"), "condition enough is added")
	require.Contains(t, admin.run("conditions", "add", "enough", "--query", query).stderr, "there is a condition enough already")
	require.Contains(t, admin.run("conditions", "add", "frob", "--query", "SELECT count(*) FROM changes").stderr, "PostgreSQL refuses it: return type mismatch")
	require.Contains(t, admin.run("conditions", "add", "Frob", "--query", "SELECT true").stderr, "must match [a-z]")
	for flag, value := range map[string]string{"--timeout": "3s", "--users": "x", "--query": ""} {
		require.Equal(t, 2, admin.run("conditions", "update", "enough", flag, value).code, flag)
	}

	tried := admin.run("conditions", "try", "enough", "--config", `{"least": 50}`)
	require.Equal(t, 1, tried.code)
	require.Contains(t, tried.stderr, "condition `enough` failed: permission denied for table changes; it may read what is granted to role echomind_conditions")
	u.exec(`GRANT SELECT ON changes TO echomind_conditions`)
	require.Contains(t, admin.succeed("conditions", "try", "enough", "--config", `{"least": 50}`), "is met: a job runs")
	require.Equal(t, false, admin.object("conditions", "try", "enough", "--config", `{"least": 70}`)["met"])
	require.Contains(t, admin.run("conditions", "try", "enough").stderr, "has no answer")
	require.Contains(t, admin.run("conditions", "try", "none").stderr, `there is no condition "none"`)

	person.succeed("types", "add", "refresh", "--kind", "job", "--default-refresh", "1h")
	require.Contains(t, person.run("connectors", "add", "--name", "docs", "--type", "file", "--user", "1", "--config", `{"url":"file:///srv"}`, "--condition", "enough").stderr, "conditions are for jobs")
	require.Contains(t, person.run("connectors", "add", "--name", "vocabulary", "--type", "refresh", "--user", "3", "--condition", "enough").stderr, "is not for user 3")
	require.Contains(t, person.run("connectors", "add", "--name", "vocabulary", "--type", "refresh", "--user", "1", "--condition", "other").stderr, "there is none of this name")
	person.succeed("connectors", "add", "--name", "vocabulary", "--type", "refresh", "--user", "1", "--condition", "enough", "--config", `{"least": 50}`)
	require.Equal(t, "enough", person.object("connectors", "get", "vocabulary")["condition"])
	require.Contains(t, person.succeed("connectors", "get", "vocabulary"), "condition enough")
	u.service("echomind-scheduler")
	why := person.object("why", "vocabulary")
	require.Equal(t, "asks_condition", why["cause"])
	require.Contains(t, why["evidence"], "condition enough: it is asked before a slot runs, and skips the slot where it is not met")
	require.Contains(t, person.succeed("schedule", "preview", "vocabulary"), "decided at its slot, where condition enough is asked")
	require.InDelta(t, 1, person.array("conditions", "list")[0]["connectors"], 0)
	require.Equal(t, query, person.object("conditions", "show", "enough")["query"])
	require.Contains(t, person.succeed("conditions", "show", "enough"), "1,2")

	u.exec(`INSERT INTO unmet_slots (connector_id, type, config_version, reason, first_slot, last_slot, count, first_at, last_at)
		SELECT id, type, config_version, 'condition ` + "`enough`" + ` not met', now() - interval '2 hours', now(), 3, now(), now() FROM connectors WHERE name = 'vocabulary'`)
	passed := person.succeed("runs", "vocabulary")
	require.Regexp(t, "skipped since: 3 slots, .* … .*: condition `enough` not met", passed)
	require.NotContains(t, passed, "never due", "three slots were due, and have no run")
	require.Contains(t, admin.run("conditions", "remove", "enough").stderr, "condition enough is in use")
	admin.succeed("conditions", "update", "enough", "--query", "SELECT false", "--users", "all", "--timeout", "500ms")
	changed := person.object("conditions", "show", "enough")
	require.Nil(t, changed["users"])
	require.InDelta(t, 500, changed["timeout_ms"], 0)
	require.Contains(t, admin.succeed("conditions", "try", "enough"), "is not met")
	person.succeed("connectors", "update", "vocabulary", "--condition", "none")
	require.Nil(t, person.object("connectors", "get", "vocabulary")["condition"])
	admin.succeed("conditions", "remove", "enough")
	require.Empty(t, person.array("conditions", "list"))
	require.Equal(t, "f", u.row(`SELECT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'condition_queries'::regnamespace AND proname = 'enough')::text`)[:1])
}
