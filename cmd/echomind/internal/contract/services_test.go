package contract

import (
	"context"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
)

// serve runs the scheduler and semantic, each as a member of its own group.
func (d *database) serve(natsURL string, access func(service string) config.NATSAccess) {
	d.Helper()
	d.Setenv("HTTP_ADDR", "")
	d.Setenv("NATS_URL", natsURL)
	d.Setenv("WORKER_LEASE_SECONDS", "3")
	d.Setenv("SCHEDULER_WATCH_INTERVAL_SECONDS", "1")
	process := connect.NewProcess(testkit.Logger(d.T))
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	run(d, group, access("scheduler"), "echomind_scheduler", func(c scheduler.Config) error { return scheduler.Run(ctx, c, process) })
	run(d, group, access("semantic"), "echomind_semantic", func(c semantic.Config) error { return semantic.Run(ctx, c, process) })
	d.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			d.Errorf("the services ended: %v", err)
		}
	})
}

func run[C any](d *database, group *errgroup.Group, access config.NATSAccess, role string, service func(C) error) {
	d.Helper()
	var cfg C
	d.Setenv("DATABASE_URL", d.login(role))
	d.Setenv("NATS_USER", access.NATSUser)
	d.Setenv("NATS_PASSWORD", access.NATSPassword)
	require.NoError(d, config.Load(&cfg))
	group.Go(func() error { return service(cfg) })
}

// anybody is how a service logs in to a server without users.
func anybody(string) config.NATSAccess { return config.NATSAccess{} }
