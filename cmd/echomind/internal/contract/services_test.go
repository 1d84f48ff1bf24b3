package contract

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/testkit"
)

// serve runs the scheduler and semantic, each as a member of its own group.
func (d *database) serve(natsURL string, access func(service string) config.NATSAccess) {
	d.Helper()
	d.Setenv("WORKER_LEASE_SECONDS", "3")
	d.Setenv("SCHEDULER_WATCH_INTERVAL_SECONDS", "1")
	start(d, natsURL, access("scheduler"), "echomind_scheduler", scheduler.Run)
	d.serveSemantic(natsURL, access)
}

func (d *database) serveSemantic(natsURL string, access func(service string) config.NATSAccess) {
	d.Helper()
	start(d, natsURL, access("semantic"), "echomind_semantic", semantic.Run)
}

// start runs a service until the test ends.
func start[C any](
	d *database, natsURL string, access config.NATSAccess, role string, service func(context.Context, C, connect.Process) error,
) {
	d.Helper()
	for name, value := range map[string]string{
		"DATABASE_URL": d.login(role), "NATS_URL": natsURL, "NATS_USER": access.NATSUser, "NATS_PASSWORD": access.NATSPassword, "HTTP_ADDR": "",
	} {
		d.Setenv(name, value)
	}
	var cfg C
	require.NoError(d, config.Load(&cfg))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- service(ctx, cfg, connect.NewProcess(testkit.Logger(d.T))) }()
	d.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			d.Errorf("a service of %s has ended: %v", role, err)
		}
	})
}

// anybody is how a service logs in to a server without users.
func anybody(string) config.NATSAccess { return config.NATSAccess{} }
