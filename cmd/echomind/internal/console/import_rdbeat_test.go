package console_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func jsonOf(text string, into any) error { return json.Unmarshal([]byte(text), into) }

const redis = `{"redbeat::schedule": {"redbeat:nightly": 1}, "redbeat:nightly": {"definition":
	"{\"name\":\"nightly\",\"task\":\"tasks.report\",\"args\":[1],\"kwargs\":{\"max_tokens\":5},\"enabled\":true,\"schedule\":{\"__type__\":\"crontab\",\"minute\":\"0\",\"hour\":\"3\",\"day_of_week\":\"*\",\"day_of_month\":\"*\",\"month_of_year\":\"*\"}}"},
	"redbeat:hourly": {"definition": {"name":"hourly","task":"tasks.poll","enabled":ENABLED,"schedule":{"__type__":"interval","every":3600.0,"relative":false}},
		"meta": {"last_run_at":{"__type__":"datetime","year":2026,"month":1,"day":1,"hour":1,"minute":0,"second":0,"microsecond":0}}},
	"redbeat:dusk": {"definition": {"name":"dusk","task":"tasks.lamp","schedule":{"__type__":"solar","event":"sunset","lat":52,"lon":13}}}}`

func dumped(enabled string) string { return strings.ReplaceAll(redis, "ENABLED", enabled) }

func TestRedBeatsEntriesAreImported(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.succeed("types", "add", "celery_task", "--kind", "job")
	from := func(enabled string, more ...string) importReport {
		return u.imports(append([]string{"rdbeat", u.written("redis.json", dumped(enabled)), "--origin", "production", "--user", "3"}, more...)...)
	}
	before := u.everything()
	dry := from("true")
	require.Equal(t, "created created refused", dry.actions())
	require.Equal(t, 1, dry.PassedOver)
	require.Contains(t, dry.Rows[2].Reason, "solar")
	require.Equal(t, before, u.everything())

	require.Equal(t, "created created refused", from("true", "--apply").actions())
	nightly := u.object("connectors", "get", "nightly")
	require.JSONEq(t, `{"task":"tasks.report","args":[1],"kwargs":{"max_tokens":5}}`, u.row(`SELECT config::text FROM connectors WHERE name = 'nightly'`))
	require.Equal(t, "0 3 * * *", nightly["schedule_cron"])
	hourly := u.object("connectors", "get", "hourly")
	require.InDelta(t, 60, hourly["refresh_freq_minutes"], 0)
	require.Equal(t, "schedule", hourly["due_reason"])
	require.Equal(t, "t", u.row(`SELECT (next_sync_at <= now())::text FROM connectors WHERE name = 'hourly'`)[:1], "it was due long ago")
	after := u.everything()
	require.Equal(t, "unchanged unchanged refused", from("true", "--apply").actions())
	require.Equal(t, after, u.everything())

	off := from("false", "--apply")
	require.Equal(t, []string{"switched off"}, off.Rows[1].Changes)
	require.Equal(t, "DISABLED", u.object("connectors", "get", "hourly")["status"])
	require.Equal(t, "unchanged unchanged refused", from("false", "--apply").actions())
	require.Equal(t, []string{"switched on"}, from("true", "--apply").Rows[1].Changes)
	require.Equal(t, "ACTIVE", u.object("connectors", "get", "hourly")["status"])
	u.succeed("connectors", "disable", "hourly")
	require.Equal(t, "unchanged unchanged refused", from("true", "--apply").actions(), "what a person has switched off stays so")
	require.Equal(t, "DISABLED", u.object("connectors", "get", "hourly")["status"])
}

func TestAnEntryThatIsSwitchedOffThereIsAddedSwitchedOff(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.succeed("types", "add", "celery_task", "--kind", "job")
	u.imports("rdbeat", u.written("redis.json", dumped("false")), "--user", "3", "--apply")
	c := u.object("connectors", "get", "hourly")
	require.Equal(t, "DISABLED", c["status"])
	require.Equal(t, "switched off where it was imported from", c["status_message"])
}

func TestAConfigurationThatPostgresCannotStoreIsRefusedBeforeItIsApplied(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.succeed("types", "add", "celery_task", "--kind", "job")
	entry := func(kwargs string) string {
		return `[{"name":"x","task":"t","kwargs":` + kwargs + `,"schedule":{"__type__":"interval","every":60}}]`
	}
	for kwargs, says := range map[string]string{
		`{"a":"\ud800"}`: "half a surrogate pair",
		`{"a":"\u0000"}`: "NUL",
		`{"a":1e200000}`: "cannot store",
		strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40): "nested more than 30",
		`{"a":"` + strings.Repeat("x", 64<<10) + `"}`:               "65536 bytes",
		`{"a":[` + strings.Repeat("1,", 31000) + `1]}`:              "a connector's has at most 65536", // with blanks, as it is stored
		`{"password":"hunter2"}`:                                    "kwargs.password looks like a secret",
	} {
		for _, more := range [][]string{nil, {"--apply"}} {
			report := u.imports(append([]string{"rdbeat", u.written("redis.json", entry(kwargs)), "--user", "1"}, more...)...)
			require.Equal(t, "refused", report.actions(), kwargs[:min(len(kwargs), 60)])
			require.Contains(t, report.Rows[0].Reason, says)
		}
	}
	require.Equal(t, "0", u.row(`SELECT count(*)::text FROM connectors`))
}
