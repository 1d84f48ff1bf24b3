package connector

import (
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/services/connector/provider"
)

// Config is the configuration of the service.
type Config struct {
	config.Common
	config.Secrets
	config.Reading
	consent.Config
	// Worker tunes all subscriptions; each has WORKER_SLOTS of its own.
	Worker worker.Config
	// MaxTokens is the size of a chunk, in estimated tokens.
	MaxTokens int `env:"CONNECTOR_MAX_TOKENS" envDefault:"400"`
	// OverlapPercent is how much of a chunk repeats the end of the one before it, in percent; -1 = nothing.
	OverlapPercent int `env:"CONNECTOR_OVERLAP_PERCENT" envDefault:"15"`
	// QuotaWaitSeconds is how long a sync waits, at a time, when a provider says to wait; where it says longer, or all waits of a sync
	// would be more than an hour, the sync is put off until then, which is no failure.
	QuotaWaitSeconds int `env:"CONNECTOR_QUOTA_WAIT_SECONDS" envDefault:"600"`

	// AllowCIDRs are the loopback, private or link-local ranges, separated by commas, that downloads may lead to all the
	// same. The URLs below may lead anywhere.
	AllowCIDRs []string `env:"CONNECTOR_ALLOW_CIDRS"`
	// GoogleDriveURL is the Drive API, without /drive/v3.
	GoogleDriveURL string `env:"CONNECTOR_GOOGLE_DRIVE_URL" envDefault:"https://www.googleapis.com"`
	// GoogleRate is how many requests a second an account makes in the long run. The API's "Usage limits" allow 200 per
	// user and project; most of them are for people.
	GoogleRate float64 `env:"CONNECTOR_GOOGLE_RATE" envDefault:"50"`
	// GoogleBurst is how many at once after a rest.
	GoogleBurst float64 `env:"CONNECTOR_GOOGLE_BURST" envDefault:"100"`

	// MicrosoftAllow lists what that application may read for connectors that name no application and give no
	// refresh token, separated by spaces: tenant/drive:id, tenant/site:address, tenant/group:id (a team is a group) or
	// tenant/user:name, each as the connectors write it, or tenant/* for everything in the tenant. Every author of a
	// connector may read all of it. None = nothing.
	MicrosoftAllow string `env:"CONNECTOR_MICROSOFT_ALLOW"`
	// OneDriveRate is how many requests a second an account makes of drives in the long run. "Avoid getting throttled
	// or blocked in SharePoint Online" allows 3,000 in 5 minutes per user, and 1,250 resource units a minute per
	// application in the smallest tenant.
	OneDriveRate float64 `env:"CONNECTOR_ONEDRIVE_RATE" envDefault:"10"`
	// OneDriveBurst is how many at once after a rest.
	OneDriveBurst float64 `env:"CONNECTOR_ONEDRIVE_BURST" envDefault:"60"`
	// TeamsRate is how many requests a second an account makes of channels in the long run. "Microsoft Graph
	// service-specific throttling limits" allow 5 a second for the messages of channels, and 4 of one channel.
	TeamsRate float64 `env:"CONNECTOR_TEAMS_RATE" envDefault:"4"`
	// TeamsBurst is how many at once after a rest.
	TeamsBurst float64 `env:"CONNECTOR_TEAMS_BURST" envDefault:"8"`
}

const allowRanges = "CONNECTOR_ALLOW_CIDRS"

// Shared is what all services are told.
func (c Config) Shared() config.Common { return c.Common }

// Validate returns every problem at once.
func (c Config) Validate() error {
	_, err := secret.Load(c.SecretsKeyFile, c.SecretsKey)
	_, list := parseAllowed(c.MicrosoftAllow)
	_, ranges := guard.Prefixes(allowRanges, c.AllowCIDRs)
	problems := []error{
		list, ranges, c.Config.Validate(), consent.CheckURL("CONNECTOR_GOOGLE_DRIVE_URL", c.GoogleDriveURL), c.Common.Validate(), c.Reading.Validate(), c.Worker.Validate(), c.chunks().Validate(), err,
		config.AtLeast("CONNECTOR_QUOTA_WAIT_SECONDS", c.QuotaWaitSeconds, 1),
	}
	for _, rate := range []struct {
		name  string
		value provider.Rate
	}{
		{"CONNECTOR_GOOGLE", c.google()}, {"CONNECTOR_ONEDRIVE", c.oneDrive()}, {"CONNECTOR_TEAMS", c.teams()},
	} {
		if !(rate.value.PerSecond >= 0.01 && rate.value.PerSecond <= 10_000) {
			problems = append(problems, fmt.Errorf("%s_RATE=%g: must be 0.01 to 10000", rate.name, rate.value.PerSecond))
		}
		if !(rate.value.Burst >= 1 && rate.value.Burst <= 100_000) {
			problems = append(problems, fmt.Errorf("%s_BURST=%g: must be 1 to 100000", rate.name, rate.value.Burst))
		}
	}
	return errors.Join(problems...)
}

func (c Config) chunks() chunk.Options {
	return chunk.Options{MaxTokens: c.MaxTokens, OverlapPercent: c.OverlapPercent}
}

func (c Config) limits() provider.Limits {
	return provider.Limits{LongestWait: time.Duration(c.QuotaWaitSeconds) * time.Second}
}

func (c Config) google() provider.Rate {
	return provider.Rate{PerSecond: c.GoogleRate, Burst: c.GoogleBurst}
}

func (c Config) oneDrive() provider.Rate {
	return provider.Rate{PerSecond: c.OneDriveRate, Burst: c.OneDriveBurst}
}

func (c Config) teams() provider.Rate {
	return provider.Rate{PerSecond: c.TeamsRate, Burst: c.TeamsBurst}
}
