package worker_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/faultproxy"
)

// ways are how a network loses packets.
var ways = map[string][]faultproxy.Direction{
	"both ways":     {faultproxy.ToServer, faultproxy.ToClient},
	"to the server": {faultproxy.ToServer},
	"to the client": {faultproxy.ToClient},
}

// slowWays are those of them that differ most, for tests that wait for a long deadline.
var slowWays = map[string][]faultproxy.Direction{"both ways": ways["both ways"], "to the client": ways["to the client"]}

// behind is a fixture whose workers reach Postgres and NATS through proxies.
func (f *fixture) behind() (postgres, nats *faultproxy.Proxy, behind *fixture) {
	f.t.Helper()
	through := func(server string) (*faultproxy.Proxy, string) {
		u, err := url.Parse(server)
		require.NoError(f.t, err)
		proxy, err := faultproxy.Start(u.Host)
		require.NoError(f.t, err)
		f.t.Cleanup(func() { require.NoError(f.t, proxy.Close()) })
		address, err := proxy.URL(server)
		require.NoError(f.t, err)
		return proxy, address
	}
	other := *f
	postgres, other.url = through(f.url)
	nats, other.natsURL = through(f.nats.URL())
	return postgres, nats, &other
}

// steps is a handler that puts one document before and one after it is told to go on, and then asks what is known.
func steps() (handle worker.Handler, begun chan *worker.Run, goOn chan struct{}) {
	begun, goOn = make(chan *worker.Run, 8), make(chan struct{})
	return func(ctx context.Context, run *worker.Run) error {
		if err := run.Put(ctx, note(1)); err != nil {
			return err
		}
		begun <- run
		select {
		case <-goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := run.Put(ctx, note(2)); err != nil {
			return err
		}
		_, err := run.Known(ctx)
		return err
	}, begun, goOn
}

const drains = `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`

func TestAPostgresThatFallsSilentDuringARunIsAWaitWithANamedDeadline(t *testing.T) {
	for name, silent := range ways {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			postgres, _, behind := f.behind()
			handle, begun, goOn := steps()
			c := f.triggered()
			behind.work(handle, func(w *worker.Worker) { w.SetQueryTimeout(time.Second) })
			await(t, "the handler", begun)
			postgres.Silence(silent...)
			close(goOn)
			behind.says("worker.known: no answer within 1s")
			postgres.Heal()
			f.settled(c)
			f.is(c, drains)
			f.whole(c, 2)
		})
	}
}

func TestAPostgresThatFallsSilentAtThePickUpIsAWaitWithANamedDeadline(t *testing.T) {
	for name, silent := range slowWays {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			postgres, _, behind := f.behind()
			handle, begun, goOn := blocked()
			close(goOn)
			behind.work(handle)
			f.settled(f.triggered())
			await(t, "the handler", begun)
			behind.measures("worker_slots_busy", 0) // else it may still wait for the answer to its hand-over
			postgres.Silence(silent...)
			c := f.triggered()
			behind.says("lifecycle.pick_up: ")
			require.Empty(t, begun)
			postgres.Heal()
			f.settled(c)
			f.is(c, drains)
			await(t, "the handler", begun)
			f.empties(topology.SyncStream)
			require.Empty(t, begun, "it was handled twice")
		})
	}
}

// How long that takes at most, lifecycle's tests say of many who ask at once.
func TestAStopWhilePickUpsWaitForASilentPostgresEnds(t *testing.T) {
	f := newFixture(t)
	postgres, _, behind := f.behind()
	r := behind.workWith(slots(3), func(context.Context, *worker.Run) error { return nil })
	f.settled(f.triggered())
	behind.measures("worker_slots_busy", 0)
	postgres.Silence(ways["both ways"]...)
	for range 3 {
		f.triggered()
	}
	behind.measures("worker_slots_busy", 3)
	require.NoError(t, r.stop())
}

// The last write has 3 s, also where it goes together with others.
func TestAStopWhilePostgresIsSilentDoesNotWaitForItLonger(t *testing.T) {
	f := newFixture(t)
	postgres, _, behind := f.behind()
	const many = 8
	begun, goOn := make(chan struct{}, many), make(chan struct{})
	var all []trip
	for range many {
		all = append(all, f.triggered())
	}
	r := behind.workWith(slots(many), func(context.Context, *worker.Run) error {
		begun <- struct{}{}
		<-goOn
		return nil
	})
	for range many {
		await(t, "a handler", begun)
	}
	f.empties(topology.SyncStream)
	postgres.Silence(ways["both ways"]...)
	r.cancel()
	close(goOn)
	require.NoError(t, r.stop())
	require.Equal(t, many, behind.times("worker.hand_over: no answer within"), "each by its own deadline")
	for _, c := range all {
		f.is(c, `status = 'SYNCING' AND failure_count = 0`) // the rescue's
	}
}

func TestANATSThatFallsSilentDuringARunIsAWait(t *testing.T) {
	for name, silent := range slowWays {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, nats, behind := f.behind()
			handle, begun, goOn := steps()
			c := f.triggered()
			behind.work(handle)
			await(t, "the handler", begun)
			nats.Silence(silent...)
			close(goOn)
			behind.measures("worker_publish_retries_total", 1)
			nats.Heal()
			f.settled(c)
			f.is(c, drains)
			f.whole(c, 2)
		})
	}
}

func TestANATSThatFallsSilentWhileNothingIsToDoIsAWait(t *testing.T) {
	for name, silent := range slowWays {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, nats, behind := f.behind()
			handle, _, goOn := blocked()
			close(goOn)
			behind.work(handle)
			f.settled(f.triggered())
			nats.Silence(silent...)
			behind.says("NATS is away")
			nats.Heal()
			c := f.triggered()
			f.settled(c)
			f.is(c, drains)
		})
	}
}

func TestConnectionsThatAFailoverForgotAreReplaced(t *testing.T) {
	f := newFixture(t)
	postgres, nats, behind := f.behind()
	handle, begun, goOn := steps()
	c := f.triggered()
	behind.work(handle, func(w *worker.Worker) { w.SetQueryTimeout(time.Second) })
	await(t, "the handler", begun)
	postgres.Strand()
	nats.Strand()
	close(goOn)
	f.settled(c)
	f.is(c, drains)
	f.whole(c, 2)
}

// A stop during a silence ends, and leaves a way to a verdict: handed back, or a lease that runs out, or a message.
func TestAStopWhileAServerIsSilentEndsAndBurnsNoAttempt(t *testing.T) {
	const way = `failure_count = 0 AND verdict IN ('running', 'superseded') AND (status = 'PENDING' OR
		status = 'ACTIVE' AND due_reason = 'release' OR status = 'SYNCING' AND lease_expires_at IS NOT NULL)`
	for name, c := range map[string]struct {
		postgres, nats []faultproxy.Direction
	}{
		"Postgres both ways":     {postgres: ways["both ways"]},
		"Postgres to the server": {postgres: ways["to the server"]},
		"Postgres to the client": {postgres: ways["to the client"]},
		"NATS both ways":         {nats: ways["both ways"]},
		"NATS to the client":     {nats: ways["to the client"]},
		"both of them":           {postgres: ways["both ways"], nats: ways["both ways"]},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			postgres, nats, behind := f.behind()
			handle, begun, goOn := steps()
			busy := f.triggered()
			r := behind.work(handle)
			await(t, "the handler", begun)
			postgres.Silence(c.postgres...)
			nats.Silence(c.nats...)
			close(goOn)
			waiting := f.triggered()
			require.NoError(t, r.stop())
			f.is(busy, way)
			f.is(waiting, way)
			if c.postgres == nil {
				f.is(busy, handedBack) // Postgres can be told, so that nobody waits for a lease
			}
			postgres.Heal()
			nats.Heal()
		})
	}
}
