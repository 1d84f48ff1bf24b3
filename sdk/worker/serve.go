package worker

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/telemetry"
)

// settings are all that a subscriber of one type is told.
type settings struct {
	config.Common
	Config
}

// Validate returns every problem at once.
func (s settings) Validate() error { return errors.Join(s.Common.Validate(), s.Config.Validate()) }

// Serve subscribes to a type with everything taken from the environment (DATABASE_URL, NATS_URL, HTTP_ADDR,
// WORKER_SLOTS, ...; docs/configuration.md lists it) and works until ctx ends. It returns nil on a clean stop.
func Serve(ctx context.Context, connectorType string, handle Handler) error {
	return serve(ctx, connectorType, func(cfg Config, on Servers, process Process) (*Worker, error) {
		return New(connectorType, handle, cfg, on, process)
	})
}

func serve(ctx context.Context, connectorType string, begin func(Config, Servers, Process) (*Worker, error)) error {
	cfg, err := config.Read[settings]()
	if err != nil {
		return err
	}
	cfg.Grace = cfg.ShutdownGrace()
	process := connect.NewProcess(telemetry.Logger(os.Stderr, cfg.LogFormat, cfg.LogLevel))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return telemetry.Serve(ctx, cfg.HTTPAddr, process.Gatherer, process.Ready, nil)
	})
	group.Go(func() error {
		servers, err := connect.Open(ctx, cfg.Common, "worker-"+connectorType, process)
		if err != nil {
			return err
		}
		w, err := begin(cfg.Config, servers, process)
		if err == nil {
			err = w.Run(ctx)
		}
		return errors.Join(err, servers.Close())
	})
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
