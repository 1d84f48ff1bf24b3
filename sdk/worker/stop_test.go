package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

const handedBack = `status = 'ACTIVE' AND due_reason = 'release' AND next_sync_at <= clock_timestamp()
	AND failure_count = 0 AND verdict = 'superseded'`

func TestAnIdleWorkerStopsAtOnce(t *testing.T) {
	f := newFixture(t)
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = time.Hour }, func(context.Context, *worker.Run) error { return nil })
	f.pulls()
	require.NoError(t, r.stop())
}

func TestWhatComesWhileAWorkerStopsIsHandedBackOrStaysInTheStream(t *testing.T) {
	f := newFixture(t)
	handle, _, _ := blocked()
	r := f.workWith(func(cfg *worker.Config) { cfg.Slots, cfg.Grace = 4, time.Millisecond }, handle)
	var all []trip
	for i := range 12 {
		all = append(all, f.triggered())
		if i == 5 {
			r.cancel()
		}
	}
	require.NoError(t, r.stop())
	inTheStream := 0
	for _, c := range all {
		f.is(c, `status = 'PENDING' AND failure_count = 0 OR `+handedBack)
		if held, _, err := f.look(c, `status = 'PENDING'`); err == nil && held {
			inTheStream++
		}
	}
	require.GreaterOrEqual(t, f.held(topology.SyncStream), inTheStream)
}

// The row is locked, so that the pick-up is on its way when the stop comes.
func TestAStopDuringThePickUpWaitsForItsAnswerAndHandsBack(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	lock, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = lock.Exec(ctx, `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, c.id)
	require.NoError(t, err)
	handle, begun, _ := blocked()
	r := f.work(handle)
	f.publish(c)
	testkit.Eventually(t, soon, func() error {
		if f.one(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == "0" {
			return fmt.Errorf("the pick-up does not wait")
		}
		return nil
	})
	r.cancel()
	require.NoError(t, lock.Rollback(ctx))
	require.NoError(t, r.stop())
	f.is(c, handedBack)
	require.Empty(t, begun, "nothing begins after a stop")
	require.Zero(t, f.held(topology.SyncStream))
}

func TestAStopDuringAPickUpWhoseAnswerIsLostHandsBack(t *testing.T) {
	f := newFixture(t)
	p := newProxy(t, f.url)
	handle, begun, goOn := blocked()
	close(goOn)
	behind := f.at(p.url)
	r := behind.work(handle)
	f.settled(f.triggered()) // the pool's connection knows the statement afterwards
	await(t, "the first handler", begun)
	behind.measures("worker_slots_busy", 0) // else it is the answer to the first one's end that is swallowed
	c := f.pending()
	p.arm(c.session)
	f.publish(c)
	client := await(t, "the pick-up", p.swallow)
	f.becomes(c, `status = 'SYNCING'`)
	r.cancel()
	require.NoError(t, client.Close())
	require.NoError(t, r.stop())
	f.is(c, handedBack)
	require.Empty(t, begun)
}

func TestAStopAfterTheLastDocumentWhileTheBrokerIsAwayHandsBack(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	handle, begun, goOn := steps()
	r := f.work(handle)
	await(t, "the handler", begun)
	testkit.Eventually(t, soon, func() error {
		if n := f.held(topology.DocumentStream); n != 1 {
			return fmt.Errorf("%d documents are published", n)
		}
		return nil
	})
	require.NoError(t, f.nats.Stop(ctx))
	close(goOn)
	f.measures("worker_publish_retries_total", 1)
	require.NoError(t, r.stop())
	f.is(c, handedBack)
}

// Of the last documents the acknowledgements are awaited, so that nothing is sent twice, and nothing is left out.
func TestAStopBetweenTheLastDocumentAndSyncCompletedCompletes(t *testing.T) {
	f := newFixture(t)
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	full := stream.CachedInfo().Config
	full.MaxMsgs = 2 // sync completed is refused
	_, err = f.js.UpdateStream(ctx, full)
	require.NoError(t, err)
	c := f.triggered()
	handle, begun, goOn := steps()
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = time.Hour }, handle)
	await(t, "the handler", begun)
	close(goOn)
	f.measures("worker_publish_retries_total", 1)
	r.cancel()
	full.MaxMsgs = -1
	_, err = f.js.UpdateStream(ctx, full)
	require.NoError(t, err)
	require.NoError(t, r.stop())
	f.is(c, drains+` AND worker_id IS NULL`)
	f.whole(c, 2)
}
