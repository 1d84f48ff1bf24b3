// Package config reads the environment; no other package does.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Common is the configuration of every service.
type Common struct {
	// DatabaseURL is the URL of Postgres.
	DatabaseURL string `env:"DATABASE_URL"`
	// DatabaseDirectURL reaches Postgres without a transaction pooler, for LISTEN and the leader's lock;
	// DATABASE_URL if empty.
	DatabaseDirectURL string `env:"DATABASE_DIRECT_URL"`
	// DatabaseRole is the role that every connection of the service's pool takes with SET ROLE after its login; the login must
	// be a member of it. If empty: the login's own rights. It is refused behind a pooler.
	DatabaseRole string `env:"DATABASE_ROLE"`
	// DatabaseMaxConns bounds the service's pool.
	DatabaseMaxConns int32 `env:"DATABASE_MAX_CONNS" envDefault:"10"`
	// NATSURL is the URL of NATS; several servers of one cluster are separated by commas.
	NATSURL string `env:"NATS_URL" envDefault:"nats://127.0.0.1:4222"`
	NATSAccess
	// HTTPAddr is the address of /healthz, /readyz and /metrics, which ask for no password; empty = they are not served. The
	// images set :8080, since a container's loopback is its own.
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" envEmpty:"keep"`
	// ShutdownGraceSeconds is how long a clean stop may take, in seconds. Work in flight goes on until 5 s before its end (or
	// half, if that is less), and is then handed back. Closing takes up to 8 s more where a server does not answer.
	ShutdownGraceSeconds int `env:"SHUTDOWN_GRACE_SECONDS" envDefault:"25"`
	// LogFormat is json or text.
	LogFormat string `env:"LOG_FORMAT" envDefault:"json"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	Tracing  Tracing
}

// ShutdownGrace is ShutdownGraceSeconds as a duration.
func (c Common) ShutdownGrace() time.Duration {
	return time.Duration(c.ShutdownGraceSeconds) * time.Second
}

// DirectURL is the URL for LISTEN and for the leader's lock.
func (c Common) DirectURL() string {
	if c.DatabaseDirectURL != "" {
		return c.DatabaseDirectURL
	}
	return c.DatabaseURL
}

// Validate returns every problem at once.
func (c Common) Validate() error {
	return errors.Join(
		checkURL("DATABASE_URL", c.DatabaseURL, "postgres", "postgresql"),
		c.checkDirect(),
		checkURL("NATS_URL", c.NATSURL, "nats", "tls"),
		c.NATSAccess.Validate(),
		AtLeast("DATABASE_MAX_CONNS", int(c.DatabaseMaxConns), 2),
		AtLeast("SHUTDOWN_GRACE_SECONDS", c.ShutdownGraceSeconds, 0),
		OneOf("LOG_FORMAT", c.LogFormat, "json", "text"),
		c.Tracing.Validate(),
	)
}

func (c Common) checkDirect() error {
	if c.DatabaseDirectURL == "" {
		return nil
	}
	return checkURL("DATABASE_DIRECT_URL", c.DatabaseDirectURL, "postgres", "postgresql")
}

// DefaultDataDir is the data folder of `echomind run` where none is named.
const DefaultDataDir = "./data"

// Lookup is Load for one variable of the command line.
type Lookup struct {
	// DataDir is the folder in which `echomind run` keeps its data.
	DataDir string `env:"ECHOMIND_DATA_DIR" envDefault:"./data"`
	// DatabaseURL is the URL of a Postgres that is used instead of the embedded one.
	DatabaseURL string `env:"DATABASE_URL"`
	// DatabaseRole is the role that every connection to DATABASE_URL takes, except those of `echomind migrate`.
	DatabaseRole string `env:"DATABASE_ROLE"`
	// NATSURL is the URL of a NATS that is used instead of the embedded one.
	NATSURL string `env:"NATS_URL"`
	NATSAccess
}

// AtLeast is the error for a setting that is too small. It names the value and the fix.
func AtLeast(name string, value, least int) error {
	if value < least {
		return fmt.Errorf("%s=%d: must be at least %d", name, value, least)
	}
	return nil
}

// OneOf is the error for a setting that is none of the allowed words.
func OneOf(name, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s=%q: must be one of %s", name, value, strings.Join(allowed, ", "))
}

// checkURL never prints the URL: it may carry a password.
func checkURL(name, value string, schemes ...string) error {
	if value == "" {
		return fmt.Errorf("%s is empty: set it, for instance to %s://127.0.0.1/…", name, schemes[0])
	}
	for _, part := range strings.Split(value, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%s is not a URL; it must start with %s://", name, schemes[0])
		}
		if err := OneOf(name+"'s scheme", u.Scheme, schemes...); err != nil {
			return err
		}
	}
	return nil
}
