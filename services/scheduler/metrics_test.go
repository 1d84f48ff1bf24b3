package scheduler

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

// metered is a scheduler with a way to read its metrics.
type metered struct {
	*stage
	*Scheduler
	gatherer prometheus.Gatherer
}

func (s *stage) metered(change ...func(*Config)) metered {
	process, cfg := s.process(), s.config()
	for _, c := range change {
		c(&cfg)
	}
	return metered{s, New(cfg, s.servers, process), process.Gatherer}
}

// value is a metric's value, or a histogram's count, over all labels.
func (m metered) value(name string) float64 {
	m.Helper()
	metrics := m.families(name)
	if len(metrics) == 0 {
		m.Errorf("there is no metric %s", name)
	}
	sum := 0.0
	for _, metric := range metrics {
		sum += amount(metric)
	}
	return sum
}

// families are the metrics of a name, one for each combination of labels.
func (m metered) families(name string) []*dto.Metric {
	m.Helper()
	families, err := m.gatherer.Gather()
	m.do(err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

func amount(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
}

func (m metered) values(expected map[string]float64) {
	m.Helper()
	for name, value := range expected {
		if got := m.value(name); got != value {
			m.Errorf("%s is %v, want %v", name, got, value)
		}
	}
}
