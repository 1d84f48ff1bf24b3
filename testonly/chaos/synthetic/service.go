package synthetic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/worker"
)

// Config is what the worker is told.
type Config struct {
	config.Common
	// Worker tunes every subscription; each has WORKER_SLOTS of its own.
	Worker worker.Config
	// Types are the connector types to serve, separated by commas.
	Types []string `env:"SYNTHETIC_TYPES" envDefault:"synthetic"`
	// Jobs are the types of jobs to serve.
	Jobs []string `env:"SYNTHETIC_JOBS"`
}

// Shared is what all services are told.
func (c Config) Shared() config.Common { return c.Common }

// Validate returns every problem at once.
func (c Config) Validate() error {
	problems := []error{c.Common.Validate(), c.Worker.Validate()}
	if len(c.Types) == 0 {
		problems = append(problems, errors.New("SYNTHETIC_TYPES is empty: name a connector type"))
	}
	for _, t := range slices.Concat(c.Types, c.Jobs) {
		if _, err := topology.SyncSubject(t); err != nil {
			problems = append(problems, fmt.Errorf("SYNTHETIC_TYPES: %w", err))
		}
	}
	return errors.Join(problems...)
}

// Run connects and works until ctx ends; it returns nil on a clean stop.
func Run(ctx context.Context, cfg Config, process connect.Process) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.Worker.Grace = cfg.ShutdownGrace()
	servers, err := connect.Open(ctx, cfg.Common, "synthetic", process)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, connectorType := range cfg.Types {
		w, err := worker.New(connectorType, Sync, cfg.Worker, servers, process)
		if err != nil {
			return errors.Join(err, servers.Close())
		}
		group.Go(func() error { return w.Run(ctx) })
	}
	for _, connectorType := range cfg.Jobs {
		w, err := worker.NewJob(connectorType, worker.Job[struct{}]{Work: work}, cfg.Worker, servers, process)
		if err != nil {
			return errors.Join(err, servers.Close())
		}
		group.Go(func() error { return w.Run(ctx) })
	}
	return errors.Join(group.Wait(), servers.Close())
}
