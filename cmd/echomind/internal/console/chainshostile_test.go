package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachUpstreamIsShownWithWhatIsAskedOfIt(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "manual")
	u.add("--config", `{"url":"file:///b"}`, "--refresh", "manual")
	u.add("--config", `{"url":"file:///c"}`, "--run-after", "1", "--accept", "skipped", "--timeout", "2h")
	u.succeed("connectors", "update", "3", "--run-after", "1,2")
	require.Contains(t, u.succeed("connectors", "get", "3"), "1, accepts skipped, timeout 2h; 2, accepts completed")
}

func TestHostileChainsAreRefusedWithTheirFlag(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "manual")
	for _, args := range [][]string{
		{"--run-after", ""}, {"--run-after", ","}, {"--run-after", "1,,1"}, {"--run-after", "-1"}, {"--run-after", "0"}, {"--run-after", "99999999999"}, {"--run-after", "1", "--max-age", "0"},
		{"--run-after", "1", "--max-age", "-1h"}, {"--run-after", "1", "--timeout", "infinity"}, {"--run-after", "1", "--timeout", "30s"}, {"--run-after", "1", "--timeout", "9999999h"}, {"--run-after", "1", "--accept", ""},
		{"--run-after", "none", "--timeout", "1h"}, {"--run-after", "1", "--timeout", "NaN"},
	} {
		out := u.run(append([]string{"connectors", "add", "--name", "a", "--type", "file", "--user", "1", "--config", `{"url":"file:///b"}`}, args...)...)
		t.Log(args, out.stderr)
		if out.code != 2 {
			t.Errorf("%q: %d %s %s", args, out.code, out.stdout, out.stderr)
		}
	}
	require.NotContains(t, u.succeed("connectors", "list"), " 2 ")
}

func TestAConnectorAfterItselfIsRefusedInWords(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "manual")
	out := u.run("connectors", "update", "1", "--run-after", "1")
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stderr, "--run-after: a connector would run after itself\n")
}
