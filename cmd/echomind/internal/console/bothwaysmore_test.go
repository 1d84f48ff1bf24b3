package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
)

// same runs a command on the database and through the server, in each form, and wants the same of both.
func (u away) same(args ...string) {
	u.t.Helper()
	for _, form := range []string{"table", "wide", "json"} {
		args := slices.Concat(args, []string{"-o", form})
		began := time.Now().Truncate(time.Second)
		want, got := u.run(args...), u.through(args...)
		if form == "json" && want.code == 0 && got.code == 0 {
			want.stdout, got.stdout = sinceNow(shown(u.t, want.stdout), began), sinceNow(shown(u.t, got.stdout), began)
		}
		require.Equal(u.t, want, got, "%v", args)
	}
}

var from = regexp.MustCompile(`"from": "([^"]+)"`)

// sinceNow says now of what begins while a command runs: what goes on begins at that moment, and the other way's command has a later one.
func sinceNow(text string, began time.Time) string {
	return from.ReplaceAllStringFunc(text, func(field string) string {
		if at, err := time.Parse(time.RFC3339, from.FindStringSubmatch(field)[1]); err == nil && !at.Before(began) && !at.After(time.Now()) {
			return `"from": "now"`
		}
		return field
	})
}

func TestDeadLettersAreListedAndShownTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	js := u.jetstream()
	u.add("--refresh", "manual")
	u.signedIn(u.token(1, identity.Superadmin))
	u.same("dlq", "list")
	u.letter(js, topology.DocumentSubject, part(1, 7, "a/b.md\x1b[31m"), topology.HeaderTries, "5", topology.HeaderFirstAt, "2026-03-01T00:02:03.5Z")
	u.letter(js, "connector.sync.web", trigger(t, 9, map[string]any{"url": "https://example.org/"}))
	u.letter(js, "connector.sync.web", "\xff")
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, updated_at, config_version)
		VALUES (1, 'a/b.md', 'failed', 'not a PDF', now() - interval '3 d', 1)`)
	u.letter(js, topology.DocumentSubject, part(1, 8, "a/b.md"))
	for _, args := range [][]string{
		{"list"}, {"list", "--limit", "2"}, {"list", "--after", "1", "--limit", "1"}, {"list", "--connector", "1"}, {"list", "--subject", "connector.sync.*"}, {"list", "--subject", "nothing.of.this"},
		{"show", "1"}, {"show", "2"}, {"show", "4"}, {"show", "99"}, {"show", "0"}, {"list", "--limit", "0"}, {"list", "--connector", "0"},
	} {
		u.same(slices.Concat([]string{"dlq"}, args)...)
	}
	broken := u.through("dlq", "show", "3")
	require.Equal(t, 0, broken.code, broken.stderr)
	require.Contains(t, broken.stdout, "; how it begins is shown with DATABASE_URL and NATS_URL alone\n")
	t.Setenv("ECHOMIND_TOKEN", u.token(7, identity.User))
	refused := u.through("dlq", "list")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "list the dead letters: 403 ")
}

func TestDeadLettersAreReplayedAndDroppedTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	js := u.jetstream()
	u.add("--refresh", "manual")
	u.add("--name", "off", "--refresh", "manual")
	u.succeed("connectors", "disable", "2")
	u.signedIn(u.token(1, identity.Superadmin))
	numbers := regexp.MustCompile(`(letter|drop|show|"id":) \d+`)
	without := func(out output) output {
		times := regexp.MustCompile(`"triggered_at": "[^"]+"`)
		for _, text := range []*string{&out.stdout, &out.stderr} {
			*text = times.ReplaceAllString(numbers.ReplaceAllString(*text, "$1 N"), `"triggered_at": "T"`)
		}
		return out
	}
	for _, form := range []string{"table", "wide", "json"} {
		for _, command := range [][]string{{"replay", "--all"}, {"replay", "--all", "--connector", "1"}, {"drop", "--all", "--yes", "--connector", "2"}, {"drop", "--all", "--yes"}, {"replay", "--all"}, {"drop", "--all", "--yes"}} {
			args := slices.Concat([]string{"dlq"}, command, []string{"-o", form})
			fill := func() {
				for _, of := range []int32{1, 2, 8} {
					u.letter(js, topology.DocumentSubject, part(of, 7, "a.md"))
				}
				u.letter(js, topology.DocumentSubject, "\xff")
			}
			fill()
			want := without(u.run(args...))
			left := len(u.ids())
			u.succeed("dlq", "drop", "--all", "--yes")
			fill()
			got := without(u.through(args...))
			require.Equal(t, want, got, "%v", args)
			require.Len(t, u.ids(), left, "%v", args)
			u.succeed("dlq", "drop", "--all", "--yes")
		}
		u.same("dlq", "replay", "--all", "-o", form)
	}
	for _, of := range []int32{1, 2, 8} {
		u.letter(js, topology.DocumentSubject, part(of, 7, "a.md"))
	}
	u.letter(js, topology.DocumentSubject, "\xff")
	ids := u.array("dlq", "list")
	for _, letter := range ids[1:] {
		text, err := json.Marshal(letter["id"])
		require.NoError(t, err)
		u.same("dlq", "replay", string(text))
	}
	text, err := json.Marshal(ids[0]["id"])
	require.NoError(t, err)
	out := u.through("dlq", "replay", string(text))
	require.Equal(t, "dead letter "+string(text)+": \"a.md\" of connector 1 is fetched again; `echomind why 1` tells what happens\n", out.stdout)
	u.same("dlq", "replay", string(text))
	u.same("dlq", "drop", string(text))
	text, err = json.Marshal(ids[1]["id"])
	require.NoError(t, err)
	require.Equal(t, "removed 1 dead letter\n", u.through("dlq", "drop", string(text)).stdout)
	require.Equal(t, "user 1", u.row(`SELECT DISTINCT 'user ' || user_id FROM audit WHERE action = 'deadletters.drop'`))
}

func TestManyDeadLettersAreReplayedAndDroppedByFewRequests(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	js := u.jetstream()
	u.add("--refresh", "manual")
	u.signedIn(u.token(1, identity.Superadmin))
	const letters = 2_300
	fill := func() {
		for range letters {
			u.letter(js, topology.DocumentSubject, part(1, 7, "a.md"))
		}
	}
	fill()
	require.Len(t, told[[]map[string]any](u, "dlq", "replay", "--all"), letters)
	requests := u.row(`SELECT count(DISTINCT request_id)::text FROM audit WHERE action = 'deadletters.replay'`)
	require.Less(t, len(requests), 3, "%s requests", requests)
	require.Equal(t, fmt.Sprint(letters), u.row(`SELECT count(*)::text FROM audit WHERE action = 'deadletters.replay'`))
	fill()
	require.Equal(t, fmt.Sprintf("removed %d dead letters\n", letters), u.works("dlq", "drop", "--all", "--yes"))
	require.Empty(t, u.ids())
}

func TestLocksAreListedAndReleasedTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	u.same("locks", "list")
	u.add("--refresh", "60m")
	u.add("--name", "other", "--refresh", "60m")
	holds, waits := u.atWork(1), u.atWork(2)
	u.exec(`SELECT moves.acquire_lock($1, $2, 'ollama:global', '5 minutes')`, holds.Run, holds.ID)
	u.exec(`SELECT moves.acquire_lock($1, $2, 'ollama:global', '5 minutes', true)`, waits.Run, waits.ID)
	u.exec(`SELECT moves.acquire_lock($1, $2, 'gpu', '5 minutes')`, holds.Run, holds.ID)
	// Times that lie days away are said the same a moment later.
	u.force(`UPDATE resource_locks SET acquired_at = now() - interval '73 h', expires_at = now() + interval '73 h'`)
	u.force(`UPDATE lock_waiters SET expires_at = now() + interval '73 h'`)
	u.same("locks", "list")
	u.same("locks", "release", "none", "--yes")
	u.same("locks", "release", "gpu")
	want, got := u.run("locks", "release", "gpu", "--yes"), u.through("locks", "release", "ollama:global", "--yes")
	require.Equal(t, 0, want.code, want.stderr)
	without := regexp.MustCompile(`(epoch|by) [0-9:]+`)
	require.Equal(t, without.ReplaceAllString(want.stdout, "$1"), without.ReplaceAllString(strings.ReplaceAll(got.stdout, "ollama:global", "gpu"), "$1"), got.stderr)
	require.Contains(t, u.row(`SELECT resources::text FROM open_runs WHERE connector_id = 1`), `"by": "user 1"`)
	u.same("locks", "release", "ollama:global", "--yes")
}

func TestCalendarsAndBlackoutWindowsAreWrittenTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.signedIn(u.token(1, identity.Superadmin))
	file := icsFile(t, "SUMMARY:Neujahr\nDTSTART;VALUE=DATE:20270101\nRRULE:FREQ=YEARLY", "SUMMARY:Tag\nDTSTART;VALUE=DATE:20270503")
	u.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('always', 'UTC', '[{"name": "always", "start": "2020-01-01", "rule": "FREQ=DAILY"}]')`)
	u.add("--refresh", "1h")
	twice := func(args ...string) {
		t.Helper()
		theirs := strings.NewReplacer(" there:", " here:", "there is deleted", "here is deleted", `"there"`, `"here"`)
		for range 2 { // once new, and once in place of what is there
			want, got := u.run(args...), u.through(slices.Concat([]string{args[0], args[1], strings.Replace(args[2], "here", "there", 1)}, args[3:])...)
			require.Equal(t, want, output{theirs.Replace(got.stdout), theirs.Replace(got.stderr), got.code}, "%v", args)
		}
	}
	blackout := func(name string) string {
		return u.row(`SELECT (to_jsonb(b) - '{name,version,created_at,created_by,updated_at,updated_by}'::text[])::text FROM blackouts b WHERE name = $1`, name)
	}
	for _, flags := range [][]string{
		{"--calendar", "always", "--mode", "defer"}, {"--calendar", "always", "--mode", "skip", "--user", "7", "--spread", "30m", "--except", "1"}, {"--calendar", "always", "--mode", "skip", "--type", "web"},
	} {
		twice(slices.Concat([]string{"blackouts", "set", "here"}, flags)...)
		require.Equal(t, blackout("here"), blackout("there"), flags)
	}
	for _, flags := range [][]string{
		{"here", "--calendar", "none", "--mode", "skip"}, {"here", "--calendar", "always", "--mode", "skip", "--type", "ftp"}, {"here", "--calendar", "always", "--mode", "skip", "--provider", "x"},
		{"Here", "--calendar", "always", "--mode", "skip"}, {"here", "--mode", "skip"}, {"here", "--calendar", "always", "--mode", "stop"},
	} {
		u.same(slices.Concat([]string{"blackouts", "set"}, flags)...)
	}
	twice("blackouts", "delete", "here")
	u.same("blackouts", "delete", "Here")
	written := u.through("blackouts", "set", "there", "--calendar", "always", "--mode", "defer", "-o", "json")
	var window map[string]any
	require.NoError(t, json.Unmarshal([]byte(written.stdout), &window), written)
	require.Equal(t, []any{"there", true, nil, "user 1", []any{}}, []any{window["name"], window["stands"], window["held"], window["created_by"], window["except_connectors"]})

	calendar := func(name string) string {
		return u.row(`SELECT time_zone || entries::text FROM calendars WHERE name = $1`, name)
	}
	imported := func(name string, more ...string) output {
		args := slices.Concat([]string{"calendars", "import", name, file, "--time-zone", "Europe/Berlin"}, more)
		if name == "there" {
			return u.through(args...)
		}
		return u.run(args...)
	}
	for range 2 {
		want, got := imported("here"), imported("there")
		require.Equal(t, "calendar here has 2 entries, in Europe/Berlin; 0 connectors name it\n", want.stdout, want.stderr)
		require.Equal(t, "calendar there has 2 entries, in Europe/Berlin; 0 connectors name it\n", got.stdout, got.stderr)
		require.Equal(t, calendar("here"), calendar("there"))
	}
	for _, name := range []string{"there", "always"} {
		u.same("calendars", "import", name, file, "--time-zone", "Europe/Berlin", "--dry-run")
	}
	u.same("calendars", "import", "new", file, "--time-zone", "Europe/Berlin", "--dry-run")
	var made map[string]any
	require.NoError(t, json.Unmarshal([]byte(imported("there", "-o", "json").stdout), &made))
	require.Equal(t, []any{true, 0., "user 1", nil}, []any{made["written"], made["connectors"], made["created_by"], made["problem"]})
	u.same("calendars", "import", "Here", file, "--time-zone", "UTC")
	u.same("calendars", "import", "here", filepath.Join(t.TempDir(), "none.ics"))
	twice("calendars", "delete", "here")
	u.succeed("connectors", "update", "docs", "--calendar", "always")
	used := u.through("calendars", "delete", "always")
	require.Equal(t, 1, used.code)
	require.Contains(t, used.stderr, `delete the calendar: 409 `)
	require.Contains(t, used.stderr, `in use by connectors 1 and blackout windows there`)
	require.NoError(t, os.Remove(file))
}

func TestARunIsShownTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.add("--refresh", "manual")
	u.verdicts()
	u.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, documents_failed, warnings, config_version)
		VALUES (gen_random_uuid(), 1, 'file', 'new', now(), now(), now() - interval '25 min', 'superseded', 3, '{"it is slow"}', 1)`)
	u.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT ('00000000-0000-4000-8000-00000000000' || i)::uuid, 1, 'file', 'new', now(), now(), now() - interval '15 min', 'skipped', 1 FROM generate_series(1, 3) i`)
	u.signedIn(u.token(1, identity.Superadmin))
	for _, run := range u.array("runs", "1", "--verdict", "completed,failed,missed") {
		id := run["id"].(string)
		u.same("runs", "show", id)
		u.same("runs", "show", id[:8])
	}
	u.same("runs", "show", "00000000")
	u.same("runs", "show", "ffffffff")
	u.same("runs", "show", "ffffffff-ffff-4fff-8fff-ffffffffffff")
	u.same("runs", "show", "docs")
	open := u.array("runs", "1", "--verdict", "running")[0]["id"].(string)
	require.Regexp(t, `(?s)verdict +running.*triggers sent +1\n`, u.through("runs", "show", open[:8]).stdout)
	failed := u.array("runs", "1", "--verdict", "superseded")[0]["id"].(string)
	require.Contains(t, u.through("runs", "show", failed).stdout, "which documents were left out: a server does not show them; `echomind documents 1 --failed` lists what is failed now\n")
}

func TestAScheduleIsPreviewedTheSameThroughAServer(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.add("--refresh", "60m")
	u.add("--name", "nightly", "--cron", "30 4 * * *", "--time-zone", "Europe/Berlin", "--once-per", "day")
	u.add("--name", "never", "--refresh", "manual")
	u.force(`UPDATE connectors SET next_sync_at = date_trunc('minute', now()) + interval '90 min', slot_at = NULL, due_reason = 'schedule' WHERE id = 1`)
	u.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('sundays', 'Europe/Berlin', '[{"name": "Sunday", "start": "2020-01-05", "rule": "FREQ=WEEKLY"}]'),
		('spoiled', 'Mars', '[]')`)
	u.exec(`INSERT INTO blackouts (name, calendar, mode) VALUES ('rest', 'sundays', 'skip')`)
	u.add("--name", "sunny", "--cron", "0 */6 * * *", "--calendar", "sundays", "--calendar-use", "only")
	u.signedIn(u.token(1, identity.Superadmin))
	moment := regexp.MustCompile(`("from"|"until"): "[^"]+"|until \d{4}-\S+`)
	for _, args := range [][]string{
		{"1"}, {"nightly"}, {"nightly", "--next", "31d"}, {"nightly", "--last", "2d"}, {"never"}, {"1", "--takes", "30m", "--next", "4h"}, {"none"}, {"99"},
		{"nightly", "--set", "cron=0 3 * * *", "--set", "deadline=2h"}, {"nightly", "--set", "time_zone=UTC", "--set", "overlap=queue"},
		{"nightly", "--set", "cron=nonsense"}, {"nightly", "--set", "name=x"}, {"nightly", "--set", "catch_up=all", "--set", "catch_up_most=3"},
		{"sunny", "--next", "14d"}, {"sunny", "--set", "calendar_use=exclude"}, {"sunny", "--set", "calendar=none"}, {"nightly", "--set", "calendar=sundays"}, {"never", "--set", "calendar=sundays"},
		{"nightly", "--last", "14d", "--set", "calendar=sundays", "--set", "calendar_use=only", "--set", "cron=0 3 * * *"}, {"1", "--set", "calendar=sundays", "--set", "refresh=6h"},
		{"nightly", "--set", "calendar=absent"}, {"nightly", "--set", "calendar="}, {"nightly", "--set", "calendar=" + strings.Repeat("x", 70)}, {"nightly", "--set", "calendar=spoiled"},
	} {
		for _, form := range []string{"table", "json"} {
			args := slices.Concat([]string{"schedule", "preview"}, args, []string{"-o", form})
			want, got := u.run(args...), u.through(args...)
			for _, text := range []*string{&want.stdout, &got.stdout} {
				*text = moment.ReplaceAllString(*text, "$1")
			}
			require.Equal(t, want, got, "%v", args)
		}
	}
	require.Contains(t, u.through("schedule", "preview", "nightly", "--set", "refresh=2h", "--next", "1d").stdout, "\nas it would be: 2h\n")
	for stderr, args := range map[string][]string{
		"--next 90m: a server shows whole hours, and at most 31d": {"1", "--next", "90m"}, "--last 32d: a server shows": {"1", "--last", "32d"},
	} {
		require.Contains(t, u.through(slices.Concat([]string{"schedule", "preview"}, args)...).stderr, stderr)
	}
}

func TestASystemJobIsAddedOnceThroughAServerAndThenChanged(t *testing.T) {
	u := newTerminal(t).fromAway()
	u.succeed("types", "add", "tidy", "--system", "--default-refresh", "1h")
	u.signedIn(u.token(1, identity.Superadmin))
	added := u.through("connectors", "add", "--name", "tidy up", "--type", "tidy", "--scope", "system", "--refresh", "2h")
	require.Regexp(t, `^system job \d+ is added\n$`, added.stdout, added.stderr)
	changed := u.through("connectors", "add", "--name", "tidy", "--type", "tidy", "--scope", "system", "--cron", "0 3 * * *")
	require.Equal(t, strings.Replace(added.stdout, "is added", "was there, and is changed", 1), changed.stdout, changed.stderr)
	require.Equal(t, u.run("connectors", "add", "--name", "tidy", "--type", "tidy", "--scope", "system", "--cron", "0 3 * * *"), changed)
	require.Equal(t, "tidy 0 3 * * *", u.row(`SELECT name || ' ' || schedule_cron FROM connectors WHERE type = 'tidy'`))
	require.Contains(t, u.through("connectors", "add", "--name", "x", "--type", "file", "--scope", "system", "--config", folder).stderr, "echomind: add the connector: 422 ")
}

func TestStatisticsOfRunsAreTheSameThroughAServer(t *testing.T) {
	u := fleet(t).withStreams().fromAway()
	u.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, picked_up_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 100 + i % 30, 'web', 'new', at - interval '3 s', at - interval '2 s', at - interval '1 s' * (i % 7) - interval '1 us' * i, at + interval '1 ms' * i * i,
			(ARRAY['completed', 'failed', 'skipped', 'superseded'])[1 + i % 4], 1 FROM generate_series(1, 1300) i, LATERAL (SELECT now() - interval '1 min' * (30 + i % 600) AS at) x`)
	u.signedIn(u.token(1, identity.Superadmin))
	times := regexp.MustCompile(`"(since|until)": "[^"]+"`)
	for _, args := range [][]string{
		{}, {"--limit", "2"}, {"--type", "web"}, {"--type", "web,file"}, {"--since", "1h", "--until", "20m"}, {"docs"}, {"site", "2", "docs"}, {"nobody"}, {"--type", "wiki"}, {"--until", "23h"}, {"--limit", "0"},
	} {
		for _, form := range []string{"table", "wide", "json"} {
			args := slices.Concat([]string{"runs", "stats"}, args, []string{"-o", form})
			want, got := u.run(args...), u.through(args...)
			for _, text := range []*string{&want.stdout, &got.stdout} {
				*text = regexp.MustCompile(`since \d\S+`).ReplaceAllString(times.ReplaceAllString(*text, "$1"), "since")
			}
			require.Equal(t, want, got, "%v", args)
		}
	}
}
