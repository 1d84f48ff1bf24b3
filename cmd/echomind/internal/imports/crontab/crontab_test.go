package crontab

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
)

func rowsOf(t *testing.T, text string, o Options) []imports.Row {
	t.Helper()
	if o.Zone == "" {
		o.Zone = "UTC"
	}
	rows, err := Read(strings.NewReader(text), o)
	require.NoError(t, err)
	return rows
}

func config(t *testing.T, row imports.Row) (object map[string]any) {
	t.Helper()
	require.Empty(t, row.Refused)
	require.NoError(t, json.Unmarshal(row.Config, &object))
	return object
}

func TestACrontabIsReadAsCronReadsIt(t *testing.T) {
	rows := rowsOf(t, "\uFEFF# a comment\n\nSHELL=/bin/bash\n MAILTO = \"ops team\" \nEMPTY=\n# name: nightly backup\n0 3 * * *  /usr/bin/backup  --all \n"+
		"CRON_TZ=Europe/Berlin\n*/15 8-18 * jan-mar mon-fri\tmail -s 100\\% ops%first%second\n@daily FOO=bar /usr/bin/x\n"+
		"CRON_TZ=\n-5 4 1,15 * 7 y\r\n@every_minute z\n0 0 L * * last", Options{Zone: "America/New_York"})
	require.Len(t, rows, 6)
	env := map[string]any{"SHELL": "/bin/bash", "MAILTO": "ops team", "EMPTY": ""}
	for i, want := range []struct {
		where, name, cron, zone string
		config                  map[string]any
	}{
		{"line 7", "nightly backup", "0 3 * * *", "America/New_York", map[string]any{"command": "/usr/bin/backup  --all ", "env": env}},
		{"line 9", "mail -s 100% ops", "*/15 8-18 * jan-mar mon-fri", "Europe/Berlin",
			map[string]any{"command": "mail -s 100% ops", "stdin": "first\nsecond\n", "env": env}},
		{"line 10", "FOO=bar /usr/bin/x", "@daily", "Europe/Berlin", map[string]any{"command": "FOO=bar /usr/bin/x", "env": env}},
		{"line 12", "y", "5 4 1,15 * 7", "America/New_York", map[string]any{"command": "y", "env": env}},
		{"line 13", "z", "* * * * *", "America/New_York", map[string]any{"command": "z", "env": env}},
		{"line 14", "last", "0 0 L * *", "America/New_York", map[string]any{"command": "last", "env": env}},
	} {
		row := rows[i]
		require.Equal(t, want.config, config(t, row))
		require.Equal(t, [4]string{want.where, want.name, want.cron, want.zone}, [4]string{row.Where, row.Name, *row.Cron, row.Zone})
	}
	require.Equal(t, "name:nightly backup", rows[0].Key)
	require.Empty(t, rows[0].Variant)
	require.Equal(t, "*/15 8-18 * jan-mar mon-fri Europe/Berlin", rows[1].Variant)
}

func TestALineOfASystemNamesItsUser(t *testing.T) {
	rows := rowsOf(t, "17 * * * * root cd / && run-parts /etc/cron.hourly\n@weekly www-data ls\n* * * * * /bin/x y\n* * * * * nobody\n", Options{System: true})
	require.Equal(t, map[string]any{"command": "cd / && run-parts /etc/cron.hourly", "user": "root"}, config(t, rows[0]))
	require.Equal(t, map[string]any{"command": "ls", "user": "www-data"}, config(t, rows[1]))
	require.Contains(t, rows[2].Refused, `comes a user, and "/bin/x" is none`)
	require.Contains(t, rows[3].Refused, "no command")
}

func TestWhatWouldRunAtOtherTimesIsRefusedWithTheReason(t *testing.T) {
	for line, says := range map[string]string{
		"@reboot /bin/x":                         "no time",
		"@fortnightly /bin/x":                    "write five fields",
		"@daily":                                 "no command",
		"60 * * * * x":                           `"60" is no number from 0 to 59`,
		"* * * *":                                "five fields of time and a command, and it has 4 words",
		"hello":                                  "it has 1 words",
		"0 0 30 2 * x":                           "never comes due",
		"0 30 2 * * * x":                         "six fields",
		"0 0 12 * * ? 2026 x":                    "seven fields",
		"0 0 12 1 MON-FRI 2026 x":                "six fields",
		"0 3 * * * ":                             "no command",
		"5/10 * * * * x":                         `crons disagree about "5/10"`,
		"0 3 */2 * 1 x":                          "both days are restricted",
		"0 3 1 * */2 x":                          "both days are restricted",
		"0~59 3 * * * x":                         "H(0-59)",
		"0 3 * * * root /bin/x":                  "--system",
		"0 3 * * * x \x00":                       "NUL",
		"0 3 * * * \xff":                         "UTF-8",
		"0 3 * * * " + strings.Repeat("x", 70e3): "more than 65536 bytes",
		strings.Repeat("y", 300e3):               "more than 65536 bytes",
	} {
		rows := rowsOf(t, line+"\n1 1 * * * ok\n", Options{})
		require.Len(t, rows, 2, line)
		require.Contains(t, rows[0].Refused, says, line[:min(len(line), 80)])
		require.NotEmpty(t, rows[0].Name)
		require.Empty(t, rows[1].Refused, "a line that is refused keeps no other from being read")
		require.Equal(t, "line 2", rows[1].Where)
	}
	for _, fine := range []string{"0 3 1-7 * 1 x", "0 3 * * 1 x", "0 3 */1 * 1 x", "0 3 1 * ? x", "1-59/2 * * * * 7z a", "H 3 * * 5#2 x", "@hourly *"} {
		require.Empty(t, rowsOf(t, fine, Options{})[0].Refused, fine)
	}
}

func TestAZoneThatIsNoneRefusesTheLinesBelowIt(t *testing.T) {
	rows := rowsOf(t, "0 1 * * * a\nCRON_TZ=Mars/Olympus\n0 2 * * * b\nCRON_TZ=UTC\n0 3 * * * c\n", Options{})
	require.Empty(t, rows[0].Refused)
	require.Contains(t, rows[1].Refused, `line 2 sets CRON_TZ to "Mars/Olympus"`)
	require.Empty(t, rows[2].Refused)
}

func TestAnAssignmentIsOneAsCronSeesIt(t *testing.T) {
	for line, want := range map[string][2]string{
		`A=b`: {"A", "b"}, `A = b c `: {"A", "b c"}, `"A" = " b "`: {"A", " b "}, `'A'='x"y' `: {"A", `x"y`}, `A=`: {"A", ""}, `A=$B%c`: {"A", "$B%c"},
	} {
		name, value, is := assignment(line)
		require.True(t, is, line)
		require.Equal(t, want, [2]string{name, value}, line)
	}
	for _, line := range []string{`* * * * * A=b`, `@daily A=b`, `A="b`, `A="b" c`, `A`, `=b`, `A-B=c`, `A B=c`, `"A=b"`} {
		_, _, is := assignment(line)
		require.False(t, is, line)
	}
}

func TestAnEnvironmentIsBoundedAndEachJobHasItsOwn(t *testing.T) {
	rows := rowsOf(t, "A=1\n* * * * * one\nA=2\n* * * * * two\nB="+strings.Repeat("x", 20000)+"\n* * * * * three\n", Options{})
	require.Equal(t, map[string]any{"A": "1"}, config(t, rows[0])["env"])
	require.Equal(t, map[string]any{"A": "2"}, config(t, rows[1])["env"])
	require.Contains(t, rows[2].Refused, "the environment has more than")
	require.Equal(t, map[string]any{"A": "2"}, config(t, rows[3])["env"])
}

func TestTheNameOfACommandShowsNoSecret(t *testing.T) {
	row := rowsOf(t, "0 3 * * * PGPASSWORD=hunter2 pg_dump postgres://u:hunter3@h/db", Options{})[0]
	require.NotContains(t, row.Name, "hunter")
	require.Contains(t, config(t, row)["command"], "hunter2")
}

func TestWhatIsReadIsBounded(t *testing.T) {
	for what, from := range map[string]io.Reader{
		"bytes": io.LimitReader(endless("# comment\n"), 1<<30),
		"lines": strings.NewReader(strings.Repeat("\n", maxLines+1)),
		"jobs":  strings.NewReader(strings.Repeat("* * * * * x\n", imports.MaxRows+1)),
		"line":  io.LimitReader(endless("x"), 1<<30),
	} {
		_, err := Read(from, Options{Zone: "UTC"})
		require.ErrorIs(t, err, imports.ErrTooLarge, what)
	}
	broken := errors.New("the disk is gone")
	_, err := Read(io.MultiReader(strings.NewReader("* * * * * x\n"), failing{broken}), Options{Zone: "UTC"})
	require.ErrorIs(t, err, broken)
}

type endless string

func (e endless) Read(into []byte) (n int, _ error) {
	for n+len(e) <= len(into) {
		n += copy(into[n:], e)
	}
	if n == 0 {
		n = copy(into, e)
	}
	return n, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzRead(f *testing.F) {
	f.Add("SHELL=/bin/sh\n0 3 * * * a%b\n", true)
	f.Add("@reboot x\r\nCRON_TZ=Europe/Berlin\n*/5 * * * 1-5 root x\\%y", false)
	f.Fuzz(func(t *testing.T, text string, system bool) {
		rows, err := Read(strings.NewReader(text), Options{System: system, Zone: "UTC"})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Refused == "" && (row.Cron == nil || !json.Valid(row.Config) || row.Key == "") {
				t.Fatalf("%+v", row)
			}
		}
	})
}
