// Package program is the main function of every service.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/telemetry"
)

// Service is a configuration with the part that all services share.
type Service interface {
	Validate() error
	Shared() config.Common
}

// Main loads the service's configuration from the environment, runs it until SIGINT or SIGTERM, and returns the
// exit code. A second signal ends the process at once. It takes no arguments but health, --help and --version.
func Main[C Service](run func(context.Context, C, connect.Process) error) int {
	if code, done := answer(os.Args[1:], os.Stdout, os.Stderr); done {
		return code
	}
	cfg, err := config.Read[C]()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	log := telemetry.Logger(os.Stderr, cfg.Shared().LogFormat, cfg.Shared().LogLevel)
	process := connect.NewProcess(log)
	ctx, stop := Signals(context.Background(), os.Stderr)
	defer stop()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return telemetry.Serve(ctx, cfg.Shared().HTTPAddr, process.Gatherer, process.Ready, nil)
	})
	group.Go(func() error { return run(ctx, cfg, process) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("stopped by an error", "err", err)
		return 1
	}
	return 0
}

// Signals returns a context that ends at the first SIGINT or SIGTERM. The second one exits the process.
func Signals(parent context.Context, out io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		select {
		case <-signals:
			_, _ = fmt.Fprintln(out, "stopped at once, at the second signal")
			os.Exit(130)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
