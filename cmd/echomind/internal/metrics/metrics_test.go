package metrics_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/chunker"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	confine.Serve(chunker.Tasks...)
	os.Exit(testkit.Main(m))
}

var update = flag.Bool("update", false, "write docs/metrics.md")

const metricsPage = "../../../../docs/metrics.md"

const metricsHead = `# Metrics

Made from the code by ` + "`make generate`" + `; do not edit. Every service serves these on ` + "`/metrics`" + ` of its ` + "`HTTP_ADDR`" + `, and besides them the
` + "`go_*` and `process_*`" + ` ones of Prometheus's own collectors. A metric with labels is there once it has counted something.

What the scheduler's gauges say, the leader measures every ten seconds, of the whole system; a scheduler that does not lead says nothing,
or 0. What is away is left as it was measured last, but for ` + "`stream_up` and `postgres_up`" + `. No label holds what a user can name without
limit: types are rows of ` + "`connector_types`" + `, and a reason that the ledger does not know is counted as ` + "`other`" + `.

| metric | kind | labels | served by | what it says |
|---|---|---|---|---|
`

// measured is one metric.
type measured struct {
	name, kind, labels, help string
	services                 []string
}

// collected notes what is registered.
type collected struct {
	prometheus.Registerer
	mu  sync.Mutex
	all map[string]measured
}

func (c *collected) Register(collector prometheus.Collector) error {
	if err := c.Registerer.Register(collector); err != nil {
		return err
	}
	kinds := map[string]string{}
	out := make(chan prometheus.Metric, 100)
	collector.Collect(out)
	close(out)
	for metric := range out {
		var sample dto.Metric
		if metric.Write(&sample) == nil {
			kinds[metric.Desc().String()] = kindOf(&sample)
		}
	}
	descs := make(chan *prometheus.Desc, 100)
	collector.Describe(descs)
	close(descs)
	c.mu.Lock()
	defer c.mu.Unlock()
	for desc := range descs {
		found := described.FindStringSubmatch(desc.String())
		if found == nil {
			return fmt.Errorf("the description %s is not understood", desc)
		}
		labels := strings.Split(found[4], ",")
		if found[3] != "" {
			labels = append([]string{found[3]}, labels...)
		}
		m := measured{name: found[1], kind: kinds[desc.String()], help: found[2], labels: strings.Trim(strings.Join(labels, ", "), ", ")}
		if m.kind == "" {
			m.kind = kindOfVector(collector)
		}
		c.all[m.name] = m
	}
	return nil
}

var described = regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: "(.*)", unit: "", constLabels: \{(?:(\w+)=.*)?\}, variableLabels: \{(.*)\}\}$`)

func kindOf(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return "counter"
	case m.Gauge != nil:
		return "gauge"
	case m.Histogram != nil:
		return "histogram"
	}
	return ""
}

func kindOfVector(collector prometheus.Collector) string {
	switch collector.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	return ""
}

func (c *collected) has(prefix string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.all {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// allMetrics starts each service by itself, and returns what it registers.
func allMetrics(t *testing.T) []measured {
	t.Helper()
	t.Setenv("DATABASE_URL", testkit.Database(t, db.Up))
	t.Setenv("NATS_URL", testkit.NATS(t).URL())
	t.Setenv("HTTP_ADDR", "")
	var s scheduler.Config
	var c chunker.Config
	var r connector.Config
	var m semantic.Config
	var a api.Config
	require.NoError(t, config.LoadAll(&s, &c, &r, &m, &a))
	a.Addr = "127.0.0.1:0"
	all := map[string]measured{}
	for service, of := range map[string]struct {
		last string // what it registers once it is connected
		run  func(context.Context, connect.Process) error
	}{
		"api":       {"api_", func(ctx context.Context, p connect.Process) error { return api.Run(ctx, a, p) }},
		"scheduler": {"scheduler_", func(ctx context.Context, p connect.Process) error { return scheduler.Run(ctx, s, p) }},
		"chunker":   {"worker_", func(ctx context.Context, p connect.Process) error { return chunker.Run(ctx, c, p) }},
		"connector": {"worker_", func(ctx context.Context, p connect.Process) error { return connector.Run(ctx, r, p) }},
		"semantic":  {"worker_", func(ctx context.Context, p connect.Process) error { return semantic.Run(ctx, m, p) }},
	} {
		process := connect.NewProcess(testkit.Logger(t))
		seen := &collected{Registerer: process.Metrics, all: map[string]measured{}}
		process.Metrics = seen
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- of.run(ctx, process) }()
		testkit.Eventually(t, 30*time.Second, func() error {
			if !seen.has(of.last) {
				return fmt.Errorf("%s is not connected", service)
			}
			return nil
		})
		stop()
		require.NoError(t, <-ended)
		for name, one := range seen.all {
			one.services = append([]string{service}, all[name].services...)
			all[name] = one
		}
	}
	list := slices.SortedFunc(maps.Values(all), func(a, b measured) int { return cmp.Compare(a.name, b.name) })
	for i := range list {
		slices.Sort(list[i].services)
	}
	return list
}

func TestTheListOfMetricsIsCurrent(t *testing.T) {
	var page strings.Builder
	page.WriteString(metricsHead)
	for _, m := range allMetrics(t) {
		by := strings.Join(m.services, ", ")
		switch {
		case len(m.services) == 5:
			by = "all"
		case len(m.services) == 4 && !slices.Contains(m.services, "api"):
			by = "all but api"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, m.labels, by, m.help)
	}
	if *update {
		require.NoError(t, os.WriteFile(metricsPage, []byte(page.String()), 0o644))
	}
	have, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(have), "run make generate")
}

// Names of units as Prometheus wants them, labels that are bounded, and a help text that is a sentence.
func TestEveryMetricSaysWhatItMeasuresInWhichUnitAndByBoundedLabels(t *testing.T) {
	bounded := []string{"service", "version", "state", "type", "status", "verdict", "reason", "outcome", "result", "provider", "stream", "look", "condition", "blackout", "kind", "method", "action"}
	all := allMetrics(t)
	require.Greater(t, len(all), 60)
	for _, m := range all {
		require.NotEmpty(t, m.kind, m.name)
		require.Regexp(t, `^[A-Za-z0-9].*\.$`, m.help, m.name)
		if m.labels != "" {
			require.Subset(t, bounded, strings.Split(m.labels, ", "), m.name)
		}
		switch m.kind {
		case "counter":
			if m.name != "scheduler_jobs_failed" { // the name that was asked for
				require.True(t, strings.HasSuffix(m.name, "_total"), m.name)
			}
		case "histogram":
			require.True(t, strings.HasSuffix(m.name, "_seconds"), m.name)
		default:
			require.False(t, strings.HasSuffix(m.name, "_total"), m.name)
		}
		if regexp.MustCompile(`^(Time|Age|For how long)\b`).MatchString(m.help) {
			require.Regexp(t, `_seconds(_total)?$`, m.name)
		}
		if strings.HasPrefix(m.help, "Bytes") || strings.HasPrefix(m.help, "Size") {
			require.True(t, strings.HasSuffix(m.name, "_bytes"), m.name)
		}
	}
}
