// Package stack runs the whole pipeline in one process: the servers that are not configured elsewhere, the
// migrations, and every service.
package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/services/chunker"
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
	Semantic  semantic.Config
	// HTTPAddr is where health and metrics of all services are served; empty = nowhere.
	HTTPAddr string
	Log      *slog.Logger
	// Started, if not nil, is told once everything is up.
	Started func(devstack.Info, *devstack.Stack)
}

// ErrPostgresEnded says that the embedded Postgres ended while it was needed.
var ErrPostgresEnded = errors.New("the embedded PostgreSQL server ended")

// LoadConfig fills the services' configurations from the environment.
func LoadConfig() (Config, error) {
	var cfg Config
	var lookup config.Lookup
	err := errors.Join(config.Load(&lookup), config.Load(&cfg.Scheduler), config.Load(&cfg.Chunker), config.Load(&cfg.Semantic))
	cfg.Devstack = devstack.Config{
		DataDir: lookup.DataDir, DatabaseURL: lookup.DatabaseURL, NATSURL: lookup.NATSURL,
	}
	return cfg, err
}

// Run starts everything, works until ctx ends, and stops in order: services, NATS, Postgres. It returns nil on a
// clean stop.
func Run(ctx context.Context, cfg Config) error {
	servers, err := devstack.Start(ctx, cfg.Devstack)
	if err != nil {
		return err
	}
	err = work(ctx, cfg, servers)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, servers.Stop(stopping))
}

func work(ctx context.Context, cfg Config, servers *devstack.Stack) error {
	info := servers.Info()
	migrating, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := db.Up(migrating, info.DatabaseURL); err != nil {
		return err
	}
	for _, shared := range []*config.Common{&cfg.Scheduler.Common, &cfg.Chunker.Common, &cfg.Semantic.Common} {
		shared.DatabaseURL, shared.NATSURL = info.DatabaseURL, info.NATSURL
	}
	process := connect.NewProcess(cfg.Log)

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
	group.Go(func() error { return named("semantic", semantic.Run(ctx, cfg.Semantic, process)) })
	group.Go(func() error { return announce(ctx, cfg, servers, process.Ready) })
	return group.Wait()
}

// announce tells once that every service is ready.
func announce(ctx context.Context, cfg Config, servers *devstack.Stack, ready *telemetry.Readiness) error {
	const expected = 7 // two servers of each service, and the scheduler's LISTEN
	for {
		if asked, problems := ready.Ask(ctx); asked >= expected && len(problems) == 0 {
			if cfg.Started != nil {
				cfg.Started(servers.Info(), servers)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func named(service string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", service, err)
}
