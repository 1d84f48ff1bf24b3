package observability_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/observability"
)

const (
	rulesFile = "../../helm/echomind/files/alerts.yaml"
	runbooks  = "../../docs/runbooks"
)

func rules(t *testing.T) []observability.Rule {
	t.Helper()
	all, err := observability.ReadRules(rulesFile)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

func TestEveryAlertSaysWhatIsWrongWhatFollowsAndTheFix(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules(t) {
		require.Regexp(t, `^EchoMind[A-Z][A-Za-z]+$`, r.Alert)
		require.False(t, seen[r.Alert], "%s is there twice", r.Alert)
		seen[r.Alert] = true
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.For, "%s: what heals by itself is no alert", r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Equal(t, "docs/runbooks/"+r.Alert+".md", r.Annotations["runbook_url"])
	}
}

func TestEveryAlertHasARunbookAndEveryRunbookAnAlert(t *testing.T) {
	wanted := []string{"README.md"}
	for _, r := range rules(t) {
		wanted = append(wanted, r.Alert+".md")
		text, err := os.ReadFile(filepath.Join(runbooks, r.Alert+".md"))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "# "+r.Alert+"\n"), r.Alert)
		for _, part := range []string{"\n## Consequence\n", "\n## Look\n", "\n## Do\n", "\n## Tried\n"} {
			require.Equal(t, 1, strings.Count(string(text), part), "%s:%s", r.Alert, part)
		}
	}
	var found []string
	entries, err := os.ReadDir(runbooks)
	require.NoError(t, err)
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.ElementsMatch(t, wanted, found)
}

func TestTheIndexOfRunbooksIsTheRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(runbooks, "README.md"))
	require.NoError(t, err)
	var want []string
	for _, r := range rules(t) {
		want = append(want, fmt.Sprintf("| [%s](%s.md) | %s |", r.Alert, r.Alert, r.Labels["severity"]))
	}
	have := regexp.MustCompile(`(?m)^\| \[Echo\w+\]\(\w+\.md\) \| \w+ \|`).FindAllString(string(text), -1)
	require.Equal(t, want, have)
}

// promtool runs the rules' tests; this test checks that every alert has one.
func TestEveryAlertIsTestedBothSilentAndFiring(t *testing.T) {
	text, err := os.ReadFile("../../testonly/chaos/alerts/testdata/alerts_test.yaml")
	require.NoError(t, err)
	for _, r := range rules(t) {
		fires := false
		for _, test := range strings.Split(string(text), "\n  - name: '")[1:] {
			if strings.HasPrefix(test, r.Alert+": ") && strings.Contains(test, `alertname="`+r.Alert+`"}', value: 1}`) {
				require.Contains(t, test, "exp_samples: []", "%s is also silent", r.Alert)
				fires = true
			}
		}
		require.True(t, fires, "%s fires in no test", r.Alert)
	}
}
