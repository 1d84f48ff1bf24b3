package chunker

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/services/chunker/files"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
	files    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	return &metrics{
		requests: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chunker_requests_total", Help: "Requests to web sites, by the class of the response; refused = the address is not allowed.",
		}, []string{"outcome"})),
		duration: telemetry.Register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "chunker_request_duration_seconds", Help: "Time from a request to the head of its response.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 9),
		})),
		files: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chunker_files_total", Help: "Files that syncs of folders listed: read, unchanged, or not readable.",
		}, []string{"outcome"})),
	}
}

// folder counts the files of a sync.
func (m *metrics) folder(r files.Result) {
	m.files.WithLabelValues("read").Add(float64(r.Put))
	m.files.WithLabelValues("unchanged").Add(float64(r.Unchanged + r.Touched))
	m.files.WithLabelValues("error").Add(float64(r.Failed))
}

// counted is a transport that counts the outcomes of its requests.
type counted struct {
	http.RoundTripper
	metrics *metrics
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := c.RoundTripper.RoundTrip(r)
	c.metrics.duration.Observe(time.Since(began).Seconds())
	outcome := "error"
	var name *guard.NameError
	switch {
	case errors.Is(err, guard.ErrBlocked), errors.As(err, &name) && name.Blocked:
		outcome = "refused"
	case err == nil:
		outcome = strconv.Itoa(response.StatusCode/100) + "xx"
	}
	c.metrics.requests.WithLabelValues(outcome).Inc()
	return response, err
}
