package api

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/signin"
	"github.com/echomind/sync/services/api/internal/webhooks"
	"github.com/echomind/sync/services/connector/consent"
)

// maxUploadedFiles is how many files a connector may be allowed.
const maxUploadedFiles = 100_000

// Config is the configuration of the service.
type Config struct {
	config.Common
	config.Secrets
	// Scheduler is what the answer to why a connector does not run says of the scheduler.
	Scheduler evidence.SchedulerSays
	// Qdrant is where searches look, if semantic keeps an index there.
	Qdrant config.Qdrant
	// Uploads is where files are kept that people upload.
	Uploads config.Uploads
	// SignIn is whom it believes who somebody is, besides its own tokens.
	SignIn signin.Config
	// Consent is whom the page asks for the consent of those who connect an account.
	Consent consent.Config
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
	// UploadSeconds is how long a request that uploads files may take, in seconds.
	UploadSeconds int `env:"API_UPLOAD_SECONDS" envDefault:"600"`
	// UploadsAtOnce is how many requests of a replica upload at once, half of them for one user; others wait up to 4 s, then 503. Each holds 10 MiB with s3://.
	UploadsAtOnce int `env:"API_UPLOADS_AT_ONCE" envDefault:"8"`
	// UploadMaxFiles is how many uploaded files a connector has at most.
	UploadMaxFiles int `env:"API_UPLOAD_MAX_FILES" envDefault:"10000"`
	// UploadMaxMB is how many MiB the uploaded files of a connector have at most. As much again is kept for an hour of files that were replaced or deleted.
	UploadMaxMB int `env:"API_UPLOAD_MAX_MB" envDefault:"1024"`
	// UploadOwnerMaxMB is how many MiB the uploaded files of all connectors of an owner have at most.
	UploadOwnerMaxMB int `env:"API_UPLOAD_OWNER_MAX_MB" envDefault:"5120"`
	// TrustedProxies are the networks of the proxies in front of the API, such as 10.1.0.0/16, separated by commas. From these alone
	// X-Forwarded-For is believed, as far as they wrote it: the last address in it that is none of theirs is where a request comes
	// from. If empty: the address that connects.
	TrustedProxies []string `env:"API_TRUSTED_PROXIES"`
	// WebhookAllowCIDRs are loopback, private or link-local ranges, separated by commas, that webhooks may lead to; these alone also without TLS. Public addresses are always
	// allowed, by https.
	WebhookAllowCIDRs []string `env:"API_WEBHOOK_ALLOW_CIDRS"`
	// WebhookFailingHours is how long everything that is sent to a webhook may fail before it is switched off, in hours.
	WebhookFailingHours int `env:"API_WEBHOOK_FAILING_HOURS" envDefault:"120"`
}

// Shared is what all services are told.
func (c Config) Shared() config.Common { return c.Common }

func (c Config) requestTimeout() time.Duration { return time.Duration(c.RequestSeconds) * time.Second }

func (c Config) toldAddresses() ([]netip.Prefix, error) {
	return guard.Prefixes(webhooks.Setting, c.WebhookAllowCIDRs)
}

func (c Config) uploadTimeout() time.Duration { return time.Duration(c.UploadSeconds) * time.Second }

func (c Config) uploadMost() int64 { return int64(c.UploadMaxMB) << 20 }

func (c Config) uploadOwnerMost() int64 { return int64(c.UploadOwnerMaxMB) << 20 }

// Validate returns every problem at once.
func (c Config) Validate() error {
	_, keys := secret.Load(c.SecretsKeyFile, c.SecretsKey)
	_, proxies := trustedProxies(c.TrustedProxies)
	_, told := c.toldAddresses()
	problems := []error{
		told, config.AtLeast("API_WEBHOOK_FAILING_HOURS", c.WebhookFailingHours, 1),
		c.Common.Validate(), c.Qdrant.Validate(), c.SignIn.Validate(), c.Consent.Validate(), c.Uploads.Validate(), keys, proxies,
		config.AtLeast("API_REQUEST_SECONDS", c.RequestSeconds, 1), config.AtLeast("API_MAX_CONNECTIONS", c.MaxConnections, 1), config.AtLeast("API_MAX_WATCHERS", c.MaxWatchers, 1),
	}
	problems = append(problems,
		config.AtLeast("API_UPLOAD_SECONDS", c.UploadSeconds, 1), config.AtLeast("API_UPLOADS_AT_ONCE", c.UploadsAtOnce, 1), config.AtLeast("API_UPLOAD_MAX_FILES", c.UploadMaxFiles, 1),
		config.AtLeast("API_UPLOAD_MAX_MB", c.UploadMaxMB, 1), config.AtLeast("API_UPLOAD_OWNER_MAX_MB", c.UploadOwnerMaxMB, 1))
	if c.UploadMaxFiles > maxUploadedFiles {
		problems = append(problems, fmt.Errorf("API_UPLOAD_MAX_FILES=%d: must be at most %d, as a sync lists them at once", c.UploadMaxFiles, maxUploadedFiles))
	}
	if !(c.Rate >= 0.1 && c.Rate <= 100_000) {
		problems = append(problems, fmt.Errorf("API_RATE=%g: must be 0.1 to 100000", c.Rate))
	}
	if !(c.Burst >= 1 && c.Burst <= 100_000) {
		problems = append(problems, fmt.Errorf("API_BURST=%g: must be 1 to 100000", c.Burst))
	}
	if c.SignIn.ClientID != "" && c.SecretsKey == "" && c.SecretsKeyFile == "" {
		problems = append(problems, errors.New("SECRETS_KEY: is required with OIDC_CLIENT_ID: sessions of the page are sealed with it; `echomind secrets key` prints one"))
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
