//go:build alerts

package alerts_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/observability"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func contains(all []string, one string) bool { return slices.Contains(all, one) }

// One system for all of it: it takes a while until everything has been measured once.
func TestAlertsAreSilentWhileAllIsWellAndEachFiresUnderItsFault(t *testing.T) {
	l := open(t)
	ctx := context.Background()
	l.work()
	t.Run("every metric and label of rules and dashboards exists", func(t *testing.T) { checkNames(t, l) })
	t.Run("all is well", func(t *testing.T) {
		testkit.Eventually(t, 60*time.Second, func() error {
			watched, err := l.prometheus.series(ctx, `count_over_time(up{job="semantic"}[10s]) > 18`)
			if err != nil || len(watched) == 0 {
				return fmt.Errorf("not watched for long enough: %w", err)
			}
			fired, err := l.prometheus.fired(ctx, 10)
			if err == nil && len(fired) > 0 {
				err = fmt.Errorf("fired within the last 10 seconds: %s", fired)
			}
			return err
		})
	})
	for i, wave := range waves() {
		t.Run(fmt.Sprintf("wave %d", i+1), func(t *testing.T) {
			l.t = t
			began, missing := time.Now(), map[string]string{}
			for _, trial := range wave {
				t.Cleanup(trial.inject(l))
				for _, alert := range trial.alerts {
					missing[alert] = trial.fault
				}
			}
			testkit.Eventually(t, 2*time.Minute, func() error {
				fired, err := l.prometheus.fired(ctx, 3)
				for _, alert := range fired {
					if fault, found := missing[alert]; found {
						t.Logf("%s after %s: %s", alert, time.Since(began).Round(time.Second), fault)
						delete(missing, alert)
					}
				}
				if err == nil && len(missing) > 0 {
					err = fmt.Errorf("alerts that have not fired under their faults: %v", missing)
				}
				return err
			})
		})
	}
}

// checkNames compares what rules and dashboards name with what there is.
func checkNames(t *testing.T, l *lab) {
	rules, err := observability.ReadRules(rulesFile)
	require.NoError(t, err)
	var exprs []string
	for _, r := range rules {
		exprs = append(exprs, r.Expr)
	}
	for _, d := range observability.Dashboards() {
		for _, q := range d.Queries() {
			if !d.NeedsPostgres() {
				exprs = append(exprs, q.Text)
			}
		}
	}
	labels := map[string][]string{}
	testkit.Eventually(t, 30*time.Second, func() error {
		found, err := l.prometheus.series(context.Background(), `{__name__=~".+"}`)
		for _, s := range found {
			labels[s["__name__"]] = slices.Compact(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(s)), labels[s["__name__"]]...))))
		}
		// The scheduler measures every ten seconds, and counts a verdict some seconds late; one that is no failure has no reason.
		if err == nil && !slices.Contains(labels["scheduler_verdicts_total"], "reason") {
			err = fmt.Errorf("the failure is not measured yet")
		}
		return err
	})
	for _, expr := range exprs {
		named := observability.Names(expr)
		known := []string{"job", "instance"} // Prometheus's own
		for metric, matched := range named.Metrics {
			has, found := labels[metric]
			if unseen, listed := quiet[metric]; !found && listed {
				has, found = unseen, true
			}
			if !found {
				t.Errorf("no program measures %s: %s", metric, expr)
			}
			known = append(known, has...)
			for _, label := range matched {
				if found && !slices.Contains(has, label) {
					t.Errorf("%s has no label %s, but %v: %s", metric, label, has, expr)
				}
			}
		}
		for _, label := range named.Grouped {
			if !slices.Contains(known, label) {
				t.Errorf("nothing has a label %s: %s", label, expr)
			}
		}
	}
}

// quiet are metrics with labels that a system without remote sources has none of. The connector's own tests see them.
var quiet = map[string][]string{"connector_provider_throttled_seconds_total": {"provider"}}

func TestEveryAlertIsTriedOrSaysWhyNotAndItsRunbookTells(t *testing.T) {
	tried := map[string]string{}
	for _, wave := range waves() {
		for _, trial := range wave {
			for _, alert := range trial.alerts {
				tried[alert] = "A fault raises it (`make test-alerts`): " + trial.fault + "."
			}
		}
	}
	for alert, why := range untried {
		require.NotContains(t, tried, alert)
		tried[alert] = "Only promtool has seen it fire: " + why + "."
	}
	rules, err := observability.ReadRules(rulesFile)
	require.NoError(t, err)
	require.Len(t, tried, len(rules))
	for _, r := range rules {
		require.Contains(t, tried, r.Alert)
		page, err := os.ReadFile(filepath.Join("../../../docs/runbooks", r.Alert+".md"))
		require.NoError(t, err)
		_, told, _ := strings.Cut(string(page), "\n## Tried\n\n")
		require.Equal(t, tried[r.Alert], strings.Join(strings.Fields(told), " "), r.Alert)
	}
}
