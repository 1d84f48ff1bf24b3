package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Tracing says where the spans of runs are sent. The names are OpenTelemetry's.
type Tracing struct {
	// OTLPEndpoint is the collector's base URL, for OTLP over HTTP in protobuf, such as http://127.0.0.1:4318; spans go to
	// /v1/traces below it. If empty: no traces.
	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// OTLPHeaders is what is sent along, as name=value pairs separated by commas, values percent-encoded. It is a secret.
	OTLPHeaders string `env:"OTEL_EXPORTER_OTLP_HEADERS"`
	// TracesRatio is the share of runs that are traced, from 0 to 1; the same in every service.
	TracesRatio float64 `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1"`
	// ServiceName is what the spans call this service; its own name if empty.
	ServiceName string `env:"OTEL_SERVICE_NAME"`
}

// Headers are OTLPHeaders, taken apart. Its error names no value.
func (t Tracing) Headers() (http.Header, error) {
	headers := http.Header{}
	for i, pair := range strings.Split(t.OTLPHeaders, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, encoded, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n") {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: pair %d is not name=value with the value percent-encoded", i+1)
		}
		headers.Add(name, value)
	}
	return headers, nil
}

// Validate returns every problem at once. It never prints the URL or the headers.
func (t Tracing) Validate() error {
	const name = "OTEL_EXPORTER_OTLP_ENDPOINT"
	var problems []error
	if t.OTLPEndpoint != "" {
		u, err := url.Parse(t.OTLPEndpoint)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			problems = append(problems, fmt.Errorf("%s: must be a URL such as http://127.0.0.1:4318", name))
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			problems = append(problems, fmt.Errorf(
				"%s: holds a user, a query or a fragment; credentials belong into OTEL_EXPORTER_OTLP_HEADERS", name))
		}
	}
	if _, err := t.Headers(); err != nil {
		problems = append(problems, err)
	}
	if !(t.TracesRatio >= 0 && t.TracesRatio <= 1) { // NaN too
		problems = append(problems, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%g: must be from 0 to 1", t.TracesRatio))
	}
	return errors.Join(problems...)
}
