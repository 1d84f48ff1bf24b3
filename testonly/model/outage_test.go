package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/testkit"
)

// The lease is 3 s instead of 15 s, so that an outage of 5 s stands for one of 20 s and more: longer than a lease.
const (
	shortLease = 3 // seconds
	outage     = 5 * time.Second
)

// All components run for themselves here. One connector is in the middle of its fetch when Postgres goes away, one is
// stored while it is, and one waits in the queue.
func TestPostgresAwayForLongerThanALeaseIsAWaitForEverybody(t *testing.T) {
	server, databaseURL := testkit.PrivatePostgres(t, db.Up)
	l := openLab(t, databaseURL, testkit.NATS(t).URL())
	w := newWorld(l, t)
	var all []*connector
	for range 3 {
		c := w.add(listing, hourly(), 5)
		c.source().write("d1", 1)
		c.source().write("d2", 2)
		all = append(all, c)
	}

	begun, goOn := make(chan struct{}, len(all)), make(chan struct{})
	handler := func(ctx context.Context, run *worker.Run) error {
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return w.sync(ctx, run)
	}
	stop := w.runEverything(t, databaseURL, handler)
	<-begun

	must(t, "stop Postgres", server.Stop(context.Background()))
	time.AfterFunc(outage/2, func() { close(goOn) }) // the fetch goes on while Postgres is away
	time.Sleep(outage)                               // the outage itself; nothing is waited for here
	must(t, "restart Postgres", server.Restart(context.Background()))

	testkit.Eventually(t, time.Minute, func() error {
		for _, c := range all {
			var status string
			var synced bool
			err := w.user.servers.Pool.QueryRow(t.Context(),
				`SELECT status, last_sync_at IS NOT NULL FROM connectors WHERE id = $1`, c.id).Scan(&status, &synced)
			if err != nil {
				return err
			}
			if status != "ACTIVE" || !synced {
				return fmt.Errorf("c%d is %s", c.id, status)
			}
		}
		return nil
	})
	stop()

	now, ours := w.look(), 0
	for _, r := range now.runs {
		isOurs := slices.ContainsFunc(all, func(c *connector) bool { return c.id == r.ConnectorID })
		if r.Status != "completed" && (isOurs || r.Status == "failed") {
			t.Errorf("%s: our own outage is no failure of a connector, or of a system job", r)
		}
		if isOurs {
			ours++
		}
	}
	if ours != len(all) {
		t.Errorf("%d runs of %d connectors: an outage made somebody run twice", ours, len(all))
	}
	for _, c := range all {
		if row := now.connector(c.id); row.FailureCount != 0 {
			t.Errorf("%s: our own outage was counted as its failure", row)
		}
		if err := sameAs(c.source(), now.visible(c.id)); err != nil {
			t.Error(err)
		}
	}
}

// runEverything runs the scheduler, a worker with one slot, and semantic, as their programs do.
func (w *world) runEverything(t *testing.T, databaseURL string, handle worker.Handler) (stop func()) {
	t.Helper()
	common := config.Common{DatabaseURL: databaseURL, NATSURL: w.natsURL, DatabaseMaxConns: 5}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)

	s := scheduler.New(scheduler.Config{
		Common: common, Enabled: true, CheckIntervalSeconds: 1, MaxConcurrentSyncs: limit, OwnerSharePercent: 80, ClaimBatch: 100,
		WatchIntervalSeconds: 1, LostGraceSeconds: 15, LeaseSeconds: shortLease, ForeignTimeout: 6 * time.Hour,
	}, w.schedulers[0].servers, connect.NewProcess(w.schedulers[0].log))
	group.Go(func() error { return s.Run(ctx) })

	cfg := worker.DefaultConfig()
	cfg.Slots, cfg.LeaseSeconds = 1, shortLease
	kit, err := worker.New(listing, handle, cfg, w.kit.servers, connect.NewProcess(w.kit.log))
	must(t, "make a worker", err)
	group.Go(func() error { return kit.Run(ctx) })
	reading := semanticConfig()
	reading.LeaseSeconds = shortLease
	reader := semantic.New(reading, w.semantic[0].servers, constant{}, semantic.NewPostgresStore(),
		connect.NewProcess(w.semantic[0].log))
	group.Go(func() error { return reader.Run(ctx) })
	return func() {
		cancel()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a clean stop: %v", err)
		}
	}
}
