//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultIntervalsAreThereForPlainSQLWhileASchedulerLeads(t *testing.T) {
	s := setStage(t)
	want(s, 10080, `SELECT default_refresh('web')`) // no scheduler has run
	s.run(s.scheduler(rarely, func(cfg *Config) { cfg.Refresh.Web, cfg.Refresh.File = 90, 15 }))
	s.eventually(10*time.Second, s.countIs(90, `SELECT default_refresh('web')`))
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('x', 'file', 1, default_refresh('file'))`)
	want(s, 15, `SELECT refresh_freq_minutes FROM connectors`)
	s.exec(`UPDATE connector_types SET default_refresh_minutes = 20 WHERE name = 'web'`)
	want(s, 20, `SELECT default_refresh('web')`)
}

func TestADefaultIntervalIsBounded(t *testing.T) {
	for _, r := range []Refresh{{Web: -1}, {Drive: maxRefresh + 1}} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "must be 0 to 5256000") {
			t.Errorf("%v: %v", r, err)
		}
	}
}
