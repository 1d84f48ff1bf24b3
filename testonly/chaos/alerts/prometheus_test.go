//go:build alerts

package alerts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/testonly/chaos/world"
	"github.com/echomind/sync/testonly/testkit"
)

const rulesFile = "../../../helm/echomind/files/alerts.yaml"

// prometheus is a real one that scrapes a world twice a second.
type prometheus struct{ addr string }

var (
	minutes = regexp.MustCompile(`\b([0-9]+)m\b`)
	hours   = regexp.MustCompile(`\b([0-9]+)h\b`)
	days    = regexp.MustCompile(`\b([0-9]+)d\b`)
	ages    = regexp.MustCompile(`([0-9]+) \* 60\b`)
)

// shortened turns the minutes of rules into seconds: windows, `for`, and ages, which are written as n * 60.
func shortened(rules string) string {
	rules = ages.ReplaceAllString(minutes.ReplaceAllString(rules, "${1}s"), "$1 * 1")
	rules = days.ReplaceAllStringFunc(hours.ReplaceAllString(rules, "${1}m"), func(d string) string {
		var n int
		_, _ = fmt.Sscanf(d, "%dd", &n)
		return fmt.Sprintf("%dm", 24*n)
	})
	// Two scrapes at least must agree.
	return strings.ReplaceAll(rules, "for: 2s", "for: 4s")
}

// watch starts a Prometheus that scrapes the processes under the shortened rules, until the test ends.
func watch(t *testing.T, dir string, processes []*world.Process) prometheus {
	t.Helper()
	rules, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(shortened(string(rules))), 0o600))
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n" +
		"rule_files: [rules.yaml]\nscrape_configs:\n")
	for _, p := range processes {
		fmt.Fprintf(&config, "  - {job_name: %s, static_configs: [{targets: ['%s']}]}\n", p.Name, p.HTTP)
	}
	file := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config.String()), 0o600))
	port, err := loopback.Port(0)
	require.NoError(t, err)
	p := prometheus{addr: loopback.Address(port)}
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	require.NoError(t, err)
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+p.addr)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
	testkit.Eventually(t, 20*time.Second, func() error {
		answer, err := http.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("Prometheus says %s", answer.Status)
		}
		return nil
	})
	return p
}

// series are the label sets that an expression has now.
func (p prometheus) series(ctx context.Context, expr string) (all []map[string]string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s %w", expr, answer.Error, err)
	}
	for _, r := range answer.Data.Result {
		all = append(all, r.Metric)
	}
	return all, nil
}

// fired are the alerts that have fired within the last so many seconds.
func (p prometheus) fired(ctx context.Context, seconds int) (names []string, err error) {
	found, err := p.series(ctx, fmt.Sprintf(`count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[%ds]))`, seconds))
	for _, s := range found {
		names = append(names, s["alertname"])
	}
	return names, err
}
