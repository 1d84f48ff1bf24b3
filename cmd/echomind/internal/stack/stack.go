// Package stack runs the whole pipeline in one process: the servers that are not configured elsewhere, the
// migrations, and every service.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/chunker"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
)

const (
	migrateTimeout = 2 * time.Minute
	stopTimeout    = 20 * time.Second
)

// Config says where the stack lives and how its services run.
type Config struct {
	Devstack  devstack.Config
	Scheduler scheduler.Config
	Chunker   chunker.Config
	Connector connector.Config
	Semantic  semantic.Config
	// API is served where its Addr says; empty = nowhere.
	API api.Config
	// Registry is where the command line finds the stack from any folder; empty = it is not told.
	Registry string
	// HTTPAddr is where health and metrics of all services are served; empty = nowhere.
	HTTPAddr string
	Log      *slog.Logger
	// Started, if not nil, is told once everything is up; where the API is, the file with a token for it, and the code of a link that signs a browser in, are empty where there is none.
	Started func(info devstack.Info, servers *devstack.Stack, apiAddr, tokenFile, code string)
}

// Tasks are what child processes of the services do: confine.Serve takes them, first in main.
var Tasks = chunker.Tasks // the connector's are among them

// ErrPostgresEnded says that the embedded Postgres ended while it was needed.
var ErrPostgresEnded = errors.New("the embedded PostgreSQL server ended")

// LoadConfig takes everything from the environment. File connectors may read what it lists, and without a list nothing:
// a home, or the folder in which somebody types this, is full of files that not everybody who searches may read.
func LoadConfig(logs io.Writer) (Config, error) {
	var cfg Config
	var own config.Stack
	err := errors.Join(
		config.LoadAll(&own, &cfg.Scheduler, &cfg.Chunker, &cfg.Connector, &cfg.Semantic, &cfg.API),
		config.OneOf("LOG_FORMAT", own.LogFormat, "json", "text"),
	)
	if err != nil {
		return cfg, err
	}
	cfg.Devstack = devstack.Config{DataDir: own.DataDir, DatabaseURL: own.DatabaseURL, NATSURL: own.NATSURL}
	cfg.HTTPAddr, cfg.Registry = own.HTTPAddr, devstack.Registry()
	cfg.API.Addr, cfg.API.HTTPAddr = own.APIAddr, "" // health and metrics of all services are served once
	cfg.Log = telemetry.Logger(logs, own.LogFormat, own.LogLevel)
	cfg.Chunker.ShutdownGraceSeconds = own.ShutdownGraceSeconds
	cfg.Connector.ShutdownGraceSeconds = own.ShutdownGraceSeconds
	return cfg, nil
}

// Run starts everything, works until ctx ends, and stops in order: services, NATS, Postgres. It returns nil on a
// clean stop.
func Run(ctx context.Context, cfg Config) error {
	if err := errors.Join(telemetry.CheckFree(ctx, cfg.HTTPAddr), freeAPI(ctx, &cfg)); err != nil {
		return err
	}
	servers, err := devstack.Start(ctx, cfg.Devstack)
	if err != nil {
		return err
	}
	forget := register(cfg, servers)
	err = errors.Join(work(ctx, cfg, servers), forget())
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, servers.Stop(stopping))
}

// register leaves word of the stack. Without it the command line is to be told where it is.
func register(cfg Config, servers *devstack.Stack) (forget func() error) {
	none := func() error { return nil }
	if cfg.Registry == "" {
		return none
	}
	forget, err := servers.Register(cfg.Registry)
	if err != nil {
		cfg.Log.Warn("commands in other folders need ECHOMIND_DATA_DIR", "err", err)
		return none
	}
	return forget
}

func work(ctx context.Context, cfg Config, servers *devstack.Stack) error {
	info := servers.Info()
	migrating, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := db.Up(migrating, info.DatabaseURL); err != nil {
		return err
	}
	for shared, role := range map[*config.Common]string{
		&cfg.Scheduler.Common: "echomind_scheduler", &cfg.Chunker.Common: "echomind_worker",
		&cfg.Connector.Common: "echomind_worker", &cfg.Semantic.Common: "echomind_semantic",
		&cfg.API.Common: "echomind_api",
	} {
		shared.DatabaseURL, shared.NATSURL = info.DatabaseURL, info.NATSURL
		if cfg.Devstack.DatabaseURL == "" { // ours: its login may be anybody
			shared.DatabaseRole = role
		}
	}
	if err := ownKey(&cfg); err != nil {
		return err
	}
	if err := ownUploads(&cfg); err != nil {
		return err
	}
	cfg.API.Secrets = cfg.Connector.Secrets
	cfg.API.Qdrant = cfg.Semantic.Qdrant
	tokenFile, code, err := ownToken(ctx, cfg, info)
	if err != nil {
		return err
	}
	cfg.Chunker.Private = private(cfg, servers)
	if err := servers.SetReach(cfg.Chunker.Reach()); err != nil {
		return err
	}
	process := connect.NewProcess(cfg.Log)
	process.Embedded = cfg.Devstack.NATSURL == ""

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return telemetry.Serve(ctx, cfg.HTTPAddr, process.Gatherer, process.Ready, func(addr string) {
			if err := servers.SetHTTPAddr(addr); err != nil {
				cfg.Log.Warn("the address of health and metrics is not left in the data folder", "err", err)
			}
		})
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-servers.Ended():
			return ErrPostgresEnded
		}
	})
	group.Go(func() error { return named("scheduler", scheduler.Run(ctx, cfg.Scheduler, process)) })
	group.Go(func() error { return named("chunker", chunker.Run(ctx, cfg.Chunker, process)) })
	group.Go(func() error { return named("connector", connector.Run(ctx, cfg.Connector, process)) })
	group.Go(func() error { return named("semantic", semantic.Run(ctx, cfg.Semantic, process)) })
	served := make(chan string, 1)
	if cfg.API.Addr != "" {
		group.Go(func() error {
			return named("api", api.RunAnd(ctx, cfg.API, process, func(addr string) { served <- addr }))
		})
	} else {
		served <- ""
	}
	group.Go(func() error { return announce(ctx, cfg, servers, process.Ready, served, tokenFile, code) })
	return group.Wait()
}

// ownKey makes a key for secrets beside the embedded Postgres, unless the environment has one: connectors with secrets
// work at once, and the command line finds the key where it finds the stack. A database elsewhere has its own.
func ownKey(cfg *Config) error {
	keys := &cfg.Connector.Secrets
	if keys.SecretsKey != "" || keys.SecretsKeyFile != "" || cfg.Devstack.DatabaseURL != "" {
		return nil
	}
	file := secret.FileIn(cfg.Devstack.DataDir)
	if err := secret.MakeFile(file); err != nil {
		return err
	}
	keys.SecretsKeyFile = file
	return nil
}

// ownUploads keeps uploaded files in the data folder, unless the environment says where. A database elsewhere has files that others may have to find.
func ownUploads(cfg *Config) error {
	if cfg.API.Uploads.URL != "" || cfg.Devstack.DatabaseURL != "" {
		return nil
	}
	folder, err := filepath.Abs(filepath.Join(cfg.Devstack.DataDir, "uploads"))
	if err != nil {
		return err
	}
	cfg.API.Uploads.URL = (&url.URL{Scheme: "file", Path: folder}).String()
	cfg.Chunker.Uploads = cfg.API.Uploads
	return nil
}

// private is what no connector reads: what this process keeps its own secrets in.
func private(cfg Config, servers *devstack.Stack) []string {
	own := []string{cfg.Devstack.DataDir, ".env"}
	for _, path := range []string{servers.PostgresDir(), cfg.Connector.SecretsKeyFile, cfg.Scheduler.Election.Kubeconfig} {
		if path != "" {
			own = append(own, path)
		}
	}
	return append(own, cfg.Chunker.Private...)
}

// announce tells once that every service is ready.
func announce(ctx context.Context, cfg Config, servers *devstack.Stack, ready *telemetry.Readiness, served <-chan string, tokenFile, code string) error {
	var apiAddr string
	select {
	case apiAddr = <-served:
	case <-ctx.Done():
		return nil
	}
	expected := 13 // the start and the two servers of each service, and the scheduler's LISTEN
	if apiAddr != "" {
		expected++ // its Postgres
	}
	if !cfg.Scheduler.Enabled {
		expected--
	}
	for {
		if asked, problems := ready.Ask(ctx); asked >= expected && len(problems) == 0 {
			if cfg.Started != nil {
				cfg.Started(servers.Info(), servers, apiAddr, tokenFile, code)
			}
			return nil
		}
		if repeat.Sleep(ctx, 50*time.Millisecond) != nil {
			return nil
		}
	}
}

func named(service string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", service, err)
}
