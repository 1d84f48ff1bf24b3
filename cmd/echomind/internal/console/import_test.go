package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// written writes a file with a name of its own.
func (u terminal) written(name, text string) string {
	u.t.Helper()
	path := filepath.Join(u.t.TempDir(), name)
	require.NoError(u.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// imports runs an import with -o json, whatever becomes of its rows.
func (u terminal) imports(args ...string) (report importReport) {
	u.t.Helper()
	out := u.run(append(append([]string{"import"}, args...), "-o", "json")...)
	require.NoError(u.t, jsonOf(out.stdout, &report), out.stderr)
	want := 0
	if report.Counts["refused"] > 0 {
		want = 1
	}
	require.Equal(u.t, want, out.code, out.stderr)
	return report
}

type importReport struct {
	Source, Origin, Hint string
	Applied              bool
	Counts               map[string]int
	PassedOver           int `json:"passed_over"`
	Rows                 []struct {
		Where, Action, Name, Schedule, Reason string
		ID                                    *int32
		Changes, Notes                        []string
	}
}

// actions are what became of the rows, in order.
func (r importReport) actions() string {
	var all []string
	for _, row := range r.Rows {
		all = append(all, row.Action)
	}
	return strings.Join(all, " ")
}

// everything is all that an import could change.
func (u terminal) everything() string {
	u.t.Helper()
	return u.row(`SELECT concat_ws(E'\n', (SELECT jsonb_pretty(jsonb_agg(to_jsonb(c) ORDER BY c.id)) FROM connectors c),
		(SELECT jsonb_pretty(jsonb_agg(to_jsonb(i) ORDER BY i.connector_id)) FROM imported_connectors i),
		(SELECT last_value::text FROM connectors_id_seq), (SELECT last_value::text FROM connector_config_versions))`)
}

const machine = "SHELL=/bin/bash\nCRON_TZ=Europe/Berlin\n# name: nightly\n0 3 * * * backup --all\n*/10 * * * * poll\n@reboot start\n"

func withCronJobs(t *testing.T) terminal {
	t.Helper()
	u := newTerminal(t)
	u.succeed("types", "add", "cron_job", "--kind", "job")
	return u
}

func TestACrontabIsImportedOnlyWhenItIsApplied(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t).as(consoleRole)
	tab := u.written("web1", machine)
	before := u.everything()
	dry := u.imports("crontab", tab, "--user", "7")
	require.Equal(t, "created created refused", dry.actions())
	require.False(t, dry.Applied)
	require.Equal(t, before, u.everything())

	done := u.imports("crontab", tab, "--user", "7", "--apply")
	require.True(t, done.Applied)
	require.Equal(t, "created created refused", done.actions())
	require.Contains(t, done.Rows[2].Reason, "@reboot")
	require.Equal(t, "2", u.row(`SELECT count(*)::text FROM connectors`))
	c := u.object("connectors", "get", "nightly")
	require.Equal(t, "0 3 * * *", c["schedule_cron"])
	require.Equal(t, "Europe/Berlin", c["time_zone"])
	require.Equal(t, "cron_job", c["type"])
	require.InDelta(t, 7, c["user_id"], 0)
	require.Equal(t, map[string]any{"command": "backup --all", "env": map[string]any{"SHELL": "/bin/bash"}}, c["config"])
	require.Equal(t, "schedule schedule", u.row(`SELECT string_agg(due_reason, ' ') FROM connectors WHERE needs_plan`),
		"a job waits for its next time, and is not done because it has moved")

	after := u.everything()
	require.Equal(t, "unchanged unchanged refused", u.imports("crontab", tab, "--user", "7", "--apply").actions())
	require.Equal(t, "unchanged unchanged refused", u.imports("crontab", tab, "--user", "7").actions())
	require.Equal(t, after, u.everything())
}

func TestAnEditedLineChangesItsOwnConnector(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	args := func(text string, more ...string) []string {
		return append([]string{"crontab", u.written("web1", text), "--origin", "web1", "--user", "1"}, more...)
	}
	lines := []string{"# name: nightly\n0 3 * * * backup", "5 * * * * poll", "0 9 * * 1 mail ops", "0 10 * * 1 mail ops"}
	text := func() string { return strings.Join(lines, "\n") + "\n" }
	require.Equal(t, "created created created created", u.imports(args(text(), "--apply")...).actions())

	lines[0] = "# name: nightly\n30 4 * * * backup --all" // named: both may change
	lines[1] = "7 * * * * poll"                           // unnamed: its time
	lines[3] = "0 10 * * 1 mail ops,dev"                  // or its command
	lines[0], lines[2] = lines[2], lines[0]               // in another order
	changed := u.imports(args(text(), "--apply")...)
	require.Equal(t, "unchanged changed changed changed", changed.actions())
	require.Equal(t, []string{"schedule: 7 * * * * UTC, was 5 * * * * UTC"}, changed.Rows[1].Changes)
	require.Equal(t, []string{"schedule: 30 4 * * * UTC, was 0 3 * * * UTC", "config"}, changed.Rows[2].Changes)
	require.Equal(t, []string{"name: mail ops,dev, was mail ops", "config"}, changed.Rows[3].Changes)
	require.Equal(t, "1 nightly backup --all 30 4 * * *|2 poll poll 7 * * * *|3 mail ops mail ops 0 9 * * 1|4 mail ops,dev mail ops,dev 0 10 * * 1",
		u.row(`SELECT string_agg(concat_ws(' ', id, name, config ->> 'command', schedule_cron), '|' ORDER BY id) FROM connectors`))
	require.Equal(t, "4", u.row(`SELECT count(*)::text FROM connectors WHERE due_reason = 'schedule'`), "nothing runs because it was edited")
	require.Equal(t, "unchanged unchanged unchanged unchanged", u.imports(args(text(), "--apply")...).actions())

	gone := u.imports(args(strings.Join(lines[1:], "\n")+"\n", "--apply")...)
	require.Equal(t, "unchanged unchanged unchanged gone", gone.actions())
	require.EqualValues(t, 3, *gone.Rows[3].ID)
	require.Equal(t, "ACTIVE", u.object("connectors", "get", "3")["status"])
	u.succeed("connectors", "delete", "3", "--yes")
	require.Equal(t, "unchanged unchanged unchanged", u.imports(args(strings.Join(lines[1:], "\n")+"\n")...).actions())
	require.Equal(t, "created unchanged unchanged unchanged", u.imports(args(text(), "--apply")...).actions(), "what was deleted here and stands there is added anew")
}

func TestLinesThatAreAlikeAreToldApartOrRefused(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	tab := u.written("web1", "0 1 * * * x\n0 2 * * * x\n0 2 * * * x\n# name: a\n0 3 * * * y\n# name: a\n0 4 * * * z\n")
	done := u.imports("crontab", tab, "--user", "1", "--apply")
	require.Equal(t, "created created refused created refused", done.actions())
	require.Contains(t, done.Rows[2].Reason, "the same as line 2")
	require.Contains(t, done.Rows[4].Reason, "the same as line 5")
	other := u.imports("crontab", tab, "--user", "1", "--origin", "web2")
	require.Equal(t, "created created refused created refused", other.actions(), "another machine has jobs of its own")
	require.Contains(t, other.Hint, "/web1\" too")
}

func TestAnImportThatWasCutOffIsMendedByTheNext(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	u.exec(`CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.name = 'two' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$;
		CREATE TRIGGER cut AFTER INSERT ON connectors FOR EACH ROW EXECUTE FUNCTION cut()`)
	tab := u.written("web1", "0 1 * * * one\n0 2 * * * two\n0 3 * * * three\n")
	out := u.run("import", "crontab", tab, "--user", "1", "--apply", "-o", "json")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "line 2: ")
	require.Contains(t, out.stderr, "the same command goes on")
	var report importReport
	require.NoError(t, jsonOf(out.stdout, &report))
	require.Equal(t, "created", report.actions())
	require.Equal(t, "one", u.row(`SELECT string_agg(name, ' ') FROM connectors`))
	u.exec(`DROP TRIGGER cut ON connectors`)
	require.Equal(t, "unchanged created created", u.imports("crontab", tab, "--user", "1", "--apply").actions())
	require.Equal(t, "3", u.row(`SELECT count(*)::text FROM imported_connectors`))
}

func TestARowThatPostgresRefusesKeepsNoOtherFromBeingImported(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	u.exec(`UPDATE owner_quotas SET max_connectors = 2 WHERE user_id = 0`)
	tab := u.written("web1", "0 1 * * * one\n0 2 * * * two\n0 3 * * * three\n")
	done := u.imports("crontab", tab, "--user", "1", "--apply")
	require.Equal(t, "created created refused", done.actions())
	require.Contains(t, done.Rows[2].Reason, "2")
	u.exec(`UPDATE owner_quotas SET max_connectors = 3 WHERE user_id = 0`)
	require.Equal(t, "unchanged unchanged created", u.imports("crontab", tab, "--user", "1", "--apply").actions())
}

func TestTwoImportsAtOnceImportEachRowOnce(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	var lines strings.Builder
	for _, minute := range strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19") {
		lines.WriteString(minute + " * * * * job " + minute + "\n")
	}
	tab := u.written("web1", lines.String())
	done := make(chan output, 3)
	for range cap(done) {
		go func() { done <- u.run("import", "crontab", tab, "--user", "1", "--apply") }()
	}
	for range cap(done) {
		out := <-done
		require.Equal(t, 0, out.code, out.stderr)
	}
	require.Equal(t, "20 20", u.row(`SELECT concat_ws(' ', (SELECT count(*) FROM connectors), (SELECT count(*) FROM imported_connectors))`))
}

func TestSecretsOfAnImportAreNeitherShownNorStoredUnasked(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	tab := u.written("web1", "0 1 * * * PGPASSWORD=hunter2 pg_dump\nAPI_TOKEN=hunter3\n0 2 * * * curl https://u:hunter4@example.org/\n0 3 * * * ls\n")
	for _, more := range [][]string{nil, {"-o", "json"}, {"-o", "wide"}, {"--store-secrets"}, {"--store-secrets", "--apply"}, {"--store-secrets", "--apply", "-o", "wide"}} {
		out := u.run(append([]string{"import", "crontab", tab, "--user", "1"}, more...)...)
		require.NotContains(t, out.stdout+out.stderr, "hunter", more)
	}
	require.Equal(t, "3", u.row(`SELECT count(*)::text FROM connectors WHERE config::text LIKE '%hunter%'`), "asked for")
	refused := u.imports("crontab", tab, "--user", "1", "--origin", "again")
	require.Equal(t, "refused refused refused", refused.actions())
	require.Contains(t, refused.Rows[0].Reason, "command looks like a secret")
	require.Contains(t, refused.Rows[2].Reason, "env.API_TOKEN looks like a secret")
}

func TestAHostileCrontabNeitherMovesTheCursorNorStopsTheImport(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	hostile := "# name: \x1b[2J\u202eevil\n0 1 * * * x\n0 2 * * * \x1b]0;owned\x07 y\n\x00\n\xff\xfe\n" + strings.Repeat("z", 1<<20) + "\n0 3 * * * fine\n"
	tab := u.written("web1", hostile)
	for _, how := range []string{"table", "wide", "json"} {
		out := u.run("import", "crontab", tab, "--user", "1", "-o", how)
		require.Equal(t, 1, out.code)
		require.NotContains(t, out.stdout+out.stderr, "\x1b")
		require.NotContains(t, out.stdout+out.stderr, "\x07")
		require.NotContains(t, out.stdout+out.stderr, "\x00")
		require.Less(t, len(out.stdout), 10000)
	}
	done := u.imports("crontab", tab, "--user", "1", "--apply")
	require.Equal(t, "created created refused refused refused created", done.actions())
}

func TestWhatAnImportNeedsIsSaid(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.succeed("types", "add", "wiki")
	tab := u.written("web1", "0 1 * * * x\n")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "echomind types add cron_job --kind job", []string{"crontab", tab, "--user", "1"}},
		{2, "is a source", []string{"crontab", tab, "--user", "1", "--type", "wiki"}},
		{2, `required flag(s) "user"`, []string{"crontab", tab}},
		{2, "needs one FILE", []string{"crontab", "--user", "1"}},
		{2, "--origin", []string{"crontab", "-", "--user", "1"}},
		{2, "IANA", []string{"crontab", tab, "--user", "1", "--time-zone", "Mars"}},
		{1, "no such file", []string{"crontab", tab + ".old", "--user", "1"}},
		{1, "a dump is an object", []string{"rdbeat", tab, "--user", "1"}},
		{2, `required flag(s) "from"`, []string{"echomind"}},
		{1, "must be a URL such as postgres://", []string{"echomind", "--from", "mysql://x"}},
		{2, "has no command", []string{"at"}},
		{2, "needs a command: crontab, echomind, rdbeat", nil},
	} {
		out := u.run(append([]string{"import"}, c.args...)...)
		require.Equal(t, c.code, out.code, out.stderr)
		require.Contains(t, out.stderr, c.says)
	}
	u.succeed("types", "add", "cron_job", "--kind", "job")
	require.Regexp(t, `(?s)line 1 +created +- +x +0 1 \* \* \* UTC.*origin [^ ]+:/[^ ]+/web1: 1 created; nothing was written: --apply does`,
		u.succeed("import", "crontab", tab, "--user", "1"))
	require.Equal(t, "refused", u.imports("crontab", tab, "--user", "0").actions())
	require.Contains(t, u.succeed("import", "crontab", u.written("empty", "# nothing\n"), "--user", "1"), "nothing to import")
}

func TestAnImportKeepsTheConditionThatItsUserAdded(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	u.succeed("conditions", "add", "never", "--query", "SELECT false")
	tab := func(s string) string { return u.written("web1", s) }
	u.imports("crontab", tab("# name: nightly\n0 3 * * * backup\n"), "--origin", "web1", "--user", "1", "--apply")
	u.succeed("connectors", "update", "nightly", "--condition", "never")
	require.Equal(t, "changed", u.imports("crontab", tab("# name: nightly\n0 4 * * * backup\n"), "--origin", "web1", "--user", "1", "--apply").actions())
	require.Equal(t, "never", u.row(`SELECT coalesce(condition, 'none') FROM connectors`))
}

func TestFilesOfTheSameNameAreOfSeveralMachines(t *testing.T) {
	t.Parallel()
	u := withCronJobs(t)
	for _, command := range []string{"backup-web1", "rotate-certificates"} {
		tab := u.written("crontab", "17 * * * * root run-parts\n0 3 * * * root "+command+"\n")
		require.Equal(t, "created created", u.imports("crontab", tab, "--system", "--user", "1", "--apply").actions())
	}
	require.Equal(t, "4", u.row(`SELECT count(*)::text FROM connectors`))
}
