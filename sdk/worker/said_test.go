package worker_test

import (
	"fmt"
	"strings"
	"sync"

	"github.com/echomind/sync/testonly/testkit"
)

// said is a log that a test asks.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

// says waits until the worker's log holds a text.
func (f *fixture) says(text string) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		f.said.mu.Lock()
		defer f.said.mu.Unlock()
		if log := f.said.text.String(); !strings.Contains(log, text) {
			return fmt.Errorf("the log does not say %q: %s", text, log)
		}
		return nil
	})
}

// times is how often the log says something.
func (f *fixture) times(text string) int {
	f.said.mu.Lock()
	defer f.said.mu.Unlock()
	return strings.Count(f.said.text.String(), text)
}

// measures waits until a metric of the worker has a value.
func (f *fixture) measures(name string, want float64) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		families, err := f.metrics.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			if family.GetName() == name {
				metric := family.GetMetric()[0]
				if got := metric.GetGauge().GetValue() + metric.GetCounter().GetValue(); got >= want && (want > 0 || got == 0) {
					return nil
				}
			}
		}
		return fmt.Errorf("%s is not %v", name, want)
	})
}
