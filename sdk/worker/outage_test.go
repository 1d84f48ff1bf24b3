package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/pgserver"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

func newPrivateFixture(t *testing.T) (*fixture, *pgserver.Server) {
	t.Parallel()
	server, url := testkit.PrivatePostgres(t, db.Up)
	return newFixtureOn(t, url), server
}

// delivered says how often the sync consumer has delivered, and how many it waits for.
func (f *fixture) delivered() (times uint64, unacknowledged int, err error) {
	consumer, err := f.js.Consumer(ctx, topology.SyncStream, "sync_file")
	if err != nil {
		return 0, 0, err
	}
	info := consumer.CachedInfo()
	return info.Delivered.Consumer, info.NumAckPending, nil
}

func TestPostgresAwayAtThePickUpIsAWaitThatKeepsMessageAndSlot(t *testing.T) {
	f, server := newPrivateFixture(t)
	c := f.pending()
	handle, begun, goOn := blocked()
	f.work(handle)
	close(goOn)
	f.pulls()
	require.NoError(t, server.Stop(ctx))
	f.publish(c)
	testkit.Eventually(t, soon, func() error {
		_, waiting, err := f.delivered()
		if err == nil && waiting != 1 {
			err = fmt.Errorf("%d messages are held", waiting)
		}
		return err
	})
	f.publish(c) // a second one stays in the stream: the slot is taken
	require.Empty(t, begun)
	require.NoError(t, server.Restart(ctx))
	f.settled(c)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`)
	f.empties(topology.SyncStream)
	times, _, err := f.delivered()
	require.NoError(t, err)
	require.Equal(t, uint64(2), times, "a message was handed back")
	require.Len(t, begun, 1, "the second message is old news")
}

func TestACommitOfUnknownOutcomeAtThePickUpIsRepeated(t *testing.T) {
	f := newFixture(t)
	p := newProxy(t, f.url)
	handle, begun, goOn := blocked()
	close(goOn)
	f.at(p.url).work(handle)
	first := f.triggered() // the pool's connection knows the statement afterwards
	f.settled(first)
	c := f.pending()
	p.arm(c.session)
	f.publish(c)
	client := await(t, "the pick-up", p.swallow)
	f.becomes(c, `status = 'SYNCING'`)
	require.Len(t, begun, 1, "nothing begins before the answer")
	require.NoError(t, client.Close())
	f.settled(c)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`)
	f.whole(c, 1)
}

// The heartbeats, on a connection of their own, go on meanwhile, and name all that the worker has.
func TestAPickUpWhoseAnswerIsLostForLongerThanTheLeaseIsKept(t *testing.T) {
	f := newFixture(t)
	p := newProxy(t, f.url)
	handle, begun, goOn := blocked()
	close(goOn)
	f.at(p.url).workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, handle)
	first := f.triggered() // the pool's connection knows the statement afterwards
	f.settled(first)
	await(t, "the first run", begun)
	c := f.pending()
	p.arm(c.session)
	f.publish(c)
	client := await(t, "the pick-up", p.swallow)
	p.arm(c.session)
	again := await(t, "the pick-up, alone", p.swallow)
	f.becomes(c, `picked_up_at < now() - interval '3 s'`)
	beats := f.one(`SELECT max(beats)::text FROM workers`)
	testkit.Eventually(t, soon, func() error {
		if now := f.one(`SELECT (max(beats) - $1::bigint)::text FROM workers`, beats); now < "2" {
			return fmt.Errorf("%s heartbeats", now)
		}
		return nil
	})
	f.is(c, `worker_id = (SELECT id FROM workers ORDER BY beats DESC LIMIT 1)`)
	require.Empty(t, begun, "nothing begins before the answer")
	_ = client.Close()
	require.NoError(t, again.Close())
	f.settled(c)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`)
	f.whole(c, 1)
}

func TestASyncCompletedAfterASkipOfUnknownOutcomeChangesNothing(t *testing.T) {
	f := newFixture(t)
	p := newProxy(t, f.url)
	behind := f.at(p.url)
	begun, goOn := make(chan struct{}), make(chan struct{})
	empty := func(context.Context, *worker.Run) error { return nil }
	behind.work(first(empty, func(context.Context, *worker.Run) error {
		close(begun)
		<-goOn
		return nil
	}))
	f.settled(f.triggered()) // the pool's connection knows the statement afterwards
	c := f.triggered()
	await(t, "the handler", begun)
	f.empties(topology.SyncStream)
	p.arm(c.session)
	close(goOn)
	client := await(t, "the skip", p.swallow)
	f.becomes(c, `verdict = 'skipped'`)
	before := f.everything(c)
	p.arm(c.session)
	again := await(t, "the skip, alone", p.swallow)
	_ = client.Close()
	require.NoError(t, again.Close())
	behind.measures("worker_slots_busy", 0)
	require.Equal(t, 1, f.held(topology.DocumentStream), "sync completed, as of every other run")
	require.Equal(t, before, f.everything(c))
}

func TestPostgresAwayForLongerThanTheLeasePausesPublishingAndTheRunCompletes(t *testing.T) {
	f, server := newPrivateFixture(t)
	c := f.triggered()
	next := make(chan struct{})
	set := func(cfg *worker.Config) { cfg.LeaseSeconds, cfg.MaxInFlight = 3, 1 }
	f.workWith(set, func(ctx context.Context, run *worker.Run) error {
		i := 0
		for range next {
			i++
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
		return nil
	})
	put := 0
	putUntil := func(within time.Duration) bool {
		select {
		case next <- struct{}{}:
			put++
			return true
		case <-time.After(within):
			return false
		}
	}
	require.True(t, putUntil(soon))
	require.NoError(t, server.Stop(ctx))
	testkit.Eventually(t, soon, func() error {
		if putUntil(time.Second) {
			return fmt.Errorf("%d documents were taken", put)
		}
		return nil
	})
	held := f.held(topology.DocumentStream)
	require.False(t, putUntil(2*time.Second))
	require.Equal(t, held, f.held(topology.DocumentStream), "published without a lease")
	require.NoError(t, server.Restart(ctx))
	require.True(t, putUntil(soon))
	close(next)
	f.settled(c)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`)
	f.whole(c, put)
}

func TestARestartOfTheBrokerInMidRunLosesNoDocument(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	half, goOn := make(chan struct{}), make(chan struct{})
	const n = 100
	f.workWith(func(cfg *worker.Config) { cfg.MaxInFlight = 8 }, func(ctx context.Context, run *worker.Run) error {
		for i := range n {
			if i == n/2 {
				close(half)
				<-goOn
			}
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
		return nil
	})
	await(t, "half of the documents", half)
	require.NoError(t, f.nats.Stop(ctx))
	close(goOn)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NULL`)
	require.NoError(t, f.nats.Restart(false))
	f.settled(c)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`)
	testkit.Eventually(t, soon, func() error { _, err := f.js.Stream(ctx, topology.DocumentStream); return err })
	f.whole(c, n)
}

func TestAFullStreamIsWaitedFor(t *testing.T) {
	f := newFixture(t)
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	bounded := stream.CachedInfo().Config
	bounded.MaxMsgs = 3
	_, err = f.js.UpdateStream(ctx, bounded)
	require.NoError(t, err)
	c := f.triggered()
	returned := make(chan struct{})
	f.work(func(ctx context.Context, run *worker.Run) error {
		defer close(returned)
		for i := range 10 {
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
		return nil
	})
	await(t, "the handler", returned)
	require.LessOrEqual(t, f.held(topology.DocumentStream), 3)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NULL`)
	bounded.MaxMsgs = -1
	_, err = f.js.UpdateStream(ctx, bounded)
	require.NoError(t, err)
	f.settled(c)
	f.is(c, `drain_seq IS NOT NULL AND failure_count = 0`)
	f.whole(c, 10)
}

func TestTheLeaseIsKeptUntilSyncCompletedIsAcknowledged(t *testing.T) {
	f := newFixture(t)
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	bounded := stream.CachedInfo().Config
	bounded.MaxMsgs = 1
	_, err = f.js.UpdateStream(ctx, bounded)
	require.NoError(t, err)
	c := f.triggered()
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, func(ctx context.Context, run *worker.Run) error {
		return run.Put(ctx, note(1))
	})
	testkit.Eventually(t, soon, func() error {
		if n := f.held(topology.DocumentStream); n != 1 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	expires := f.one(`SELECT w.expires_at::text FROM workers w JOIN open_runs r ON r.worker_id = w.id WHERE r.id = $1`, c.session)
	f.becomes(c, `lease_expires_at > '`+expires+`'`)
	f.is(c, `drain_seq IS NULL`)
	bounded.MaxMsgs = -1
	_, err = f.js.UpdateStream(ctx, bounded)
	require.NoError(t, err)
	f.settled(c)
}

// maxWork is what a run may work in the tests of long outages.
const maxWork = 2 * time.Second

func TestAnOutageOfPostgresThatIsLongerThanARunMayTakeFailsNothing(t *testing.T) {
	f, server := newPrivateFixture(t)
	c := f.triggered()
	begun, away := make(chan struct{}), make(chan struct{})
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, func(ctx context.Context, run *worker.Run) error {
		if err := run.Put(ctx, note(1)); err != nil {
			return err
		}
		close(begun)
		for { // asks and asks, so that it works hardly at all
			if _, err := run.Known(ctx); err != nil {
				return err
			}
			select {
			case <-away:
				return run.Put(ctx, note(2))
			default:
			}
		}
	}, func(w *worker.Worker) { w.SetMaxRun(maxWork) })
	await(t, "the handler", begun)
	began := time.Now()
	require.NoError(t, server.Stop(ctx))
	f.says("no heartbeat was answered for a whole lease") // 3 s
	require.Greater(t, time.Since(began), maxWork)
	close(away)
	require.NoError(t, server.Restart(ctx))
	f.settled(c)
	f.is(c, drains)
	f.whole(c, 2)
}

func TestAnOutageOfTheBrokerThatIsLongerThanARunMayTakeFailsNothing(t *testing.T) {
	f := newFixture(t)
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	full := stream.CachedInfo().Config
	full.MaxMsgs = 1 // each publish after the first is refused
	_, err = f.js.UpdateStream(ctx, full)
	require.NoError(t, err)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		return errors.Join(run.Put(ctx, note(1)), run.Put(ctx, note(2)))
	}, func(w *worker.Worker) { w.SetMaxRun(maxWork) })
	began := time.Now()
	f.measures("worker_publish_retries_total", 6) // after 0.1, 0.2, 0.4, 0.8, 1.6 and 2 s
	require.Greater(t, time.Since(began), maxWork)
	f.is(c, `status = 'SYNCING' AND drain_seq IS NULL`)
	f.says("documents wait to be published")
	full.MaxMsgs = -1
	_, err = f.js.UpdateStream(ctx, full)
	require.NoError(t, err)
	f.settled(c)
	f.is(c, drains)
	f.whole(c, 2)
	f.says("no document waits to be published any more")
}
