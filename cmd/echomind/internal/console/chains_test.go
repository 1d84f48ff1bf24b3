package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAConnectorIsAddedAndChangedWithThoseThatItRunsAfter(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "manual")
	u.add("--config", `{"url":"file:///b"}`, "--refresh", "manual")
	u.add("--config", `{"url":"file:///c"}`, "--run-after", "2,1", "--accept", "skipped", "--max-age", "24h", "--timeout", "2h")
	var shown struct {
		RefreshFreqMinutes *int `json:"refresh_freq_minutes"`
		RunAfter           []struct {
			ConnectorID    int    `json:"connector_id"`
			Accepts        string `json:"accepts"`
			MaxAgeMinutes  *int   `json:"max_age_minutes"`
			TimeoutMinutes *int   `json:"timeout_minutes"`
		} `json:"run_after"`
	}
	u.json(&shown, "connectors", "get", "3")
	require.Nil(t, shown.RefreshFreqMinutes)
	require.Len(t, shown.RunAfter, 2)
	require.Equal(t, []any{2, "skipped", 1440, 120}, []any{shown.RunAfter[1].ConnectorID, shown.RunAfter[1].Accepts, *shown.RunAfter[1].MaxAgeMinutes, *shown.RunAfter[1].TimeoutMinutes})
	require.Contains(t, u.succeed("connectors", "get", "3"), "1, 2, accepts skipped, max age 1d, timeout 2h")
	require.Contains(t, u.succeed("schedule", "preview", "3"), "it has no slots: it runs after 1, 2")
	why := u.succeed("why", "3")
	require.Contains(t, why, "it runs after connector 1, which is ACTIVE")
	require.Contains(t, why, "no run of it that counts has ended")

	u.succeed("connectors", "update", "3", "--run-after", "1", "--timeout", "none")
	u.succeed("connectors", "update", "3", "--cron", "0 3 * * *")
	require.Contains(t, u.succeed("schedule", "preview", "3"), "what runs here waits for its turn after 1")
	u.json(&shown, "connectors", "get", "3")
	require.Len(t, shown.RunAfter, 1)
	require.Nil(t, shown.RunAfter[0].TimeoutMinutes)
	require.Equal(t, 1440, *shown.RunAfter[0].MaxAgeMinutes, "what is not given stays")
	u.succeed("connectors", "add", "--name", "by name", "--type", "file", "--user", "1", "--config", `{"url":"file:///d"}`)
	u.succeed("connectors", "update", "3", "--run-after", "1, by name")
	u.json(&shown, "connectors", "get", "3")
	require.Equal(t, 4, shown.RunAfter[1].ConnectorID)
	u.succeed("connectors", "update", "3", "--run-after", "none")
	u.json(&shown, "connectors", "get", "3")
	require.Empty(t, shown.RunAfter)
}

func TestChainsThatCannotBeAreRefusedWithTheirFlag(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "manual")
	u.add("--config", `{"url":"file:///b"}`, "--run-after", "1")
	for want, args := range map[string][]string{
		`--run-after "2,": must be connectors' numbers or names with commas between them`:                          {"update", "1", "--run-after", "2,"},
		`--run-after: there is no connector "a"`:                                                                   {"update", "1", "--run-after", "a"},
		`--run-after: a connector would run after itself: 1 after 2 after 1`:                                       {"update", "1", "--run-after", "2"},
		`--run-after: upstream_id is 7, which does not exist, or which the owner of connector "docs" does not see`: {"update", "1", "--run-after", "7"},
		`--run-after: upstream_id is 99999, which does not exist, or which the owner of connector "evaluate" does not see`: {"add", "--name", "evaluate", "--type", "file", "--user", "1",
			"--config", `{"url":"file:///a"}`, "--run-after", "99999"},
		`--accept "done": must be completed or skipped`:                                           {"update", "2", "--accept", "done"},
		`--accept, --max-age, --timeout: connector 1 runs after nobody; give --run-after as well`: {"update", "1", "--max-age", "1h"},
		`--max-age: needs --run-after, which it is about`:                                         {"add", "--name", "a", "--type", "file", "--user", "1", "--max-age", "1h"},
	} {
		out := u.run(append([]string{"connectors"}, args...)...)
		require.Equal(t, 2, out.code, out.stdout)
		require.Contains(t, out.stderr, want)
	}
}
