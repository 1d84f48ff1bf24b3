package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Tracing says where the spans of runs are sent. The variables have OpenTelemetry's names.
type Tracing struct {
	// TracesExporter is otlp or none. With none there are no traces, whatever else is set.
	TracesExporter string `env:"OTEL_TRACES_EXPORTER" envDefault:"otlp"`
	// TracesRatio is the share of runs that are traced, from 0 to 1; the same in every service.
	TracesRatio float64 `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1"`
	// ServiceName is the service's name in spans; its own name if empty.
	ServiceName string `env:"OTEL_SERVICE_NAME"`

	OTLP   OTLP `envPrefix:"OTEL_EXPORTER_OTLP_"`
	Traces OTLP `envPrefix:"OTEL_EXPORTER_OTLP_TRACES_"`
}

// OTLP says how spans are sent. OpenTelemetry has each variable twice: for all signals, and for traces alone.
type OTLP struct {
	// Protocol is http/protobuf, http/json or grpc; http/protobuf if empty.
	Protocol string `env:"PROTOCOL"`
	// Endpoint is the collector's URL, such as http://127.0.0.1:4318; https demands TLS. If empty, there are no traces.
	Endpoint string `env:"ENDPOINT"`
	// Headers are sent with each request, as name=value pairs separated by commas, values percent-encoded. They are a secret.
	Headers string `env:"HEADERS"`
	// Compression is gzip or none; none if empty.
	Compression string `env:"COMPRESSION"`
	// Timeout is how long sending a batch of spans may take, with all retries, in milliseconds; 5000 if empty.
	Timeout int `env:"TIMEOUT"`
	// CAFile is a file with the certificates, in PEM, of the authorities that sign the collector's certificate; the system's if
	// empty.
	CAFile string `env:"CERTIFICATE"`
	// CertFile is a file with this program's own certificate, in PEM, where the collector asks for one.
	CertFile string `env:"CLIENT_CERTIFICATE"`
	// KeyFile is a file with the key of that certificate, in PEM.
	KeyFile string `env:"CLIENT_KEY"`
}

// The protocols, and the only compression.
const (
	OverHTTP = "http/protobuf"
	AsJSON   = "http/json"
	OverGRPC = "grpc"
	Gzip     = "gzip"
)

const (
	sendTimeout = 5000
	maxTimeout  = int(time.Minute / time.Millisecond)
)

// Sender returns how the spans are sent: a setting for traces precedes the one for all signals, and each has its default. The
// endpoint is the whole URL; it is empty where there are no traces.
func (t Tracing) Sender() OTLP {
	s := OTLP{
		Protocol:    cmp.Or(t.Traces.Protocol, t.OTLP.Protocol, OverHTTP),
		Endpoint:    t.Traces.Endpoint,
		Headers:     cmp.Or(t.Traces.Headers, t.OTLP.Headers),
		Compression: cmp.Or(t.Traces.Compression, t.OTLP.Compression, "none"),
		Timeout:     cmp.Or(t.Traces.Timeout, t.OTLP.Timeout, sendTimeout),
		CAFile:      cmp.Or(t.Traces.CAFile, t.OTLP.CAFile),
		CertFile:    cmp.Or(t.Traces.CertFile, t.OTLP.CertFile),
		KeyFile:     cmp.Or(t.Traces.KeyFile, t.OTLP.KeyFile),
	}
	if s.Endpoint == "" && t.OTLP.Endpoint != "" {
		s.Endpoint = strings.TrimRight(t.OTLP.Endpoint, "/")
		if s.Protocol != OverGRPC {
			s.Endpoint += "/v1/traces"
		}
	}
	if t.TracesExporter == "none" {
		s.Endpoint = ""
	}
	return s
}

// Pairs returns the Headers as a map. Its error names no value.
func (o OTLP) Pairs() (map[string]string, error) {
	pairs := map[string]string{}
	for i, pair := range strings.Split(o.Headers, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, encoded, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		name = strings.TrimSpace(name)
		if !found || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("pair %d is not name=value with the value percent-encoded", i+1)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// Validate returns every problem at once. It never prints the URL or the headers.
func (t Tracing) Validate() error {
	problems := []error{t.OTLP.validate("OTEL_EXPORTER_OTLP_"), t.Traces.validate("OTEL_EXPORTER_OTLP_TRACES_")}
	if e := t.TracesExporter; e != "" && e != "otlp" && e != "none" {
		problems = append(problems, fmt.Errorf("OTEL_TRACES_EXPORTER=%q: must be otlp or none", e))
	}
	s := t.Sender()
	if strings.HasPrefix(s.Endpoint, "http:") && s.CAFile+s.CertFile+s.KeyFile != "" {
		problems = append(problems, errors.New(
			"OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY: the endpoint is http; name an https URL, or no file"))
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		problems = append(problems, fmt.Errorf(
			"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=%q, OTEL_EXPORTER_OTLP_CLIENT_KEY=%q: a certificate needs its key; set both or none",
			s.CertFile, s.KeyFile))
	}
	if !(t.TracesRatio >= 0 && t.TracesRatio <= 1) { // also NaN
		problems = append(problems, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%g: must be from 0 to 1", t.TracesRatio))
	}
	return errors.Join(problems...)
}

func (o OTLP) validate(prefix string) error {
	var problems []error
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			problems = append(problems, fmt.Errorf("%sENDPOINT: must be a URL such as http://127.0.0.1:4318", prefix))
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			problems = append(problems, fmt.Errorf(
				"%sENDPOINT: holds a user, a query or a fragment; credentials belong into %sHEADERS", prefix, prefix))
		}
	}
	if _, err := o.Pairs(); err != nil {
		problems = append(problems, fmt.Errorf("%sHEADERS: %w", prefix, err))
	}
	for _, c := range []struct {
		name, value string
		allowed     []string
	}{
		{"PROTOCOL", o.Protocol, []string{OverHTTP, AsJSON, OverGRPC}},
		{"COMPRESSION", o.Compression, []string{Gzip, "none"}},
	} {
		if c.value != "" && !slices.Contains(c.allowed, c.value) {
			problems = append(problems, fmt.Errorf("%s%s=%q: must be %s", prefix, c.name, c.value, strings.Join(c.allowed, " or ")))
		}
	}
	if o.Timeout < 0 || o.Timeout > maxTimeout {
		problems = append(problems, fmt.Errorf("%sTIMEOUT=%d: must be from 1 to %d", prefix, o.Timeout, maxTimeout))
	}
	for _, f := range []struct{ name, path string }{
		{"CERTIFICATE", o.CAFile}, {"CLIENT_CERTIFICATE", o.CertFile}, {"CLIENT_KEY", o.KeyFile},
	} {
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			problems = append(problems, fmt.Errorf("%s%s=%q: %w; name a file that this program may read", prefix, f.name, f.path, errors.Unwrap(err)))
		}
	}
	return errors.Join(problems...)
}
