package api

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/signin"
)

// Config is the configuration of the service.
type Config struct {
	config.Common
	config.Secrets
	// Scheduler is what the answer to why a connector does not run says of the scheduler.
	Scheduler evidence.SchedulerSays
	// Qdrant is where searches look, if semantic keeps an index there.
	Qdrant config.Qdrant
	// SignIn is whom it believes who somebody is, besides its own tokens.
	SignIn signin.Config
	// Addr is where the API is served, without TLS; the image sets :8081, since a container's loopback is its own. Health and metrics
	// have an address of their own, HTTP_ADDR.
	Addr string `env:"API_ADDR" envDefault:"127.0.0.1:8081"`
	// Rate is how many requests a second a token may make in the long run.
	Rate float64 `env:"API_RATE" envDefault:"50"`
	// Burst is how many at once after a rest.
	Burst float64 `env:"API_BURST" envDefault:"100"`
	// RequestSeconds is how long a request may take, in seconds.
	RequestSeconds int `env:"API_REQUEST_SECONDS" envDefault:"10"`
	// MaxConnections bounds the connections that are open at once. Beyond it the one that is idle for longest is closed, of the network that holds most.
	MaxConnections int `env:"API_MAX_CONNECTIONS" envDefault:"2000"`
	// MaxWatchers is how many streams of events may be open at once; one user has at most a tenth of them, and one at least.
	MaxWatchers int `env:"API_MAX_WATCHERS" envDefault:"500"`
	// TrustedProxies are the networks of the proxies in front of the API, such as 10.1.0.0/16, separated by commas. From these alone
	// X-Forwarded-For is believed, as far as they wrote it: the last address in it that is none of theirs is where a request comes
	// from. If empty: the address that connects.
	TrustedProxies []string `env:"API_TRUSTED_PROXIES"`
}

// Shared is what all services are told.
func (c Config) Shared() config.Common { return c.Common }

func (c Config) requestTimeout() time.Duration { return time.Duration(c.RequestSeconds) * time.Second }

// Validate returns every problem at once.
func (c Config) Validate() error {
	_, keys := secret.Load(c.SecretsKeyFile, c.SecretsKey)
	_, proxies := trustedProxies(c.TrustedProxies)
	problems := []error{
		c.Common.Validate(), c.Qdrant.Validate(), c.SignIn.Validate(), keys, proxies,
		config.AtLeast("API_REQUEST_SECONDS", c.RequestSeconds, 1), config.AtLeast("API_MAX_CONNECTIONS", c.MaxConnections, 1), config.AtLeast("API_MAX_WATCHERS", c.MaxWatchers, 1),
	}
	if !(c.Rate >= 0.1 && c.Rate <= 100_000) {
		problems = append(problems, fmt.Errorf("API_RATE=%g: must be 0.1 to 100000", c.Rate))
	}
	if !(c.Burst >= 1 && c.Burst <= 100_000) {
		problems = append(problems, fmt.Errorf("API_BURST=%g: must be 1 to 100000", c.Burst))
	}
	_, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		problems = append(problems, fmt.Errorf("API_ADDR=%q: must be an address such as 127.0.0.1:8080: %w", c.Addr, err))
	}
	if _, other, err := net.SplitHostPort(c.HTTPAddr); err == nil && port == other && port != "0" {
		problems = append(problems, fmt.Errorf("API_ADDR=%q and HTTP_ADDR=%q have one port: set one of them to another", c.Addr, c.HTTPAddr))
	}
	return errors.Join(problems...)
}
