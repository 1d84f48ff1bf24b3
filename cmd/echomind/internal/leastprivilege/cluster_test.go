package leastprivilege

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/testkit"
)

// cluster runs three servers from the configuration. lose ends one of them for good.
func cluster(t *testing.T) (urls [3]string, lose func(i int)) {
	t.Helper()
	var ports [3]int
	var routes []*url.URL
	for i := range ports {
		port, err := loopback.Port(0)
		require.NoError(t, err)
		ports[i] = port
		routes = append(routes, &url.URL{Scheme: "nats", Host: loopback.Address(port)})
	}
	var servers [3]*server.Server
	for i := range servers {
		servers[i] = run(t, configured(t, configuration), func(o *server.Options) {
			o.ServerName, o.Routes = fmt.Sprint("nats-", i), routes
			o.Cluster = server.ClusterOpts{Name: "echomind", Host: loopback.Host, Port: ports[i]}
		})
		urls[i] = servers[i].ClientURL()
	}
	return urls, func(i int) { servers[i].Shutdown(); servers[i].WaitForShutdown() }
}

func TestAClusterKeepsTheStreamsOnThreeServersAndWorksWithoutOneOfThem(t *testing.T) {
	t.Parallel()
	urls, lose := cluster(t)
	ctx := context.Background()
	_, setup := as(t, urls[0], "setup")
	_, scheduler := as(t, urls[0], "scheduler")
	_, chunker := as(t, urls[1], "chunker")
	testkit.Eventually(t, soon, func() error { return streams.Apply(ctx, setup, streams.Size{}) }) // once there is a leader
	require.NoError(t, streams.Apply(ctx, setup, streams.Size{Replicas: 3}))
	testkit.Eventually(t, soon, func() error {
		all, err := streams.Inspect(ctx, setup)
		if err != nil {
			return err
		}
		for name, s := range all {
			if len(s.Warnings) > 0 {
				return fmt.Errorf("%s: %q", name, s.Warnings)
			}
			if err := onAll(s.Info.Cluster); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})

	declared, err := topology.SyncConsumer("web")
	require.NoError(t, err)
	trip := func() error {
		if _, err := scheduler.Publish(ctx, "connector.sync.web", nil); err != nil {
			return err
		}
		consumer, err := streams.EnsureConsumer(ctx, chunker, topology.SyncStream, declared)
		if err != nil {
			return err
		}
		msg, err := consumer.Next(jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		return msg.DoubleAck(ctx)
	}
	testkit.Eventually(t, soon, trip)
	testkit.Eventually(t, soon, func() error {
		consumer, err := streams.EnsureConsumer(ctx, chunker, topology.SyncStream, declared)
		if err != nil {
			return err
		}
		return onAll(consumer.CachedInfo().Cluster)
	})
	lose(2)
	testkit.Eventually(t, soon, trip)
}

// onAll says whether two followers have everything.
func onAll(group *jetstream.ClusterInfo) error {
	if n := len(group.Replicas); n != 2 {
		return fmt.Errorf("%d followers", n)
	}
	for _, r := range group.Replicas {
		if !r.Current {
			return fmt.Errorf("%s is behind", r.Name)
		}
	}
	return nil
}
