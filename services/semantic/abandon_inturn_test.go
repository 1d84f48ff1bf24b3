//go:build !race

package semantic

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/leases"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestAWorkerLostAgainEndsInErrorWithABackoff(t *testing.T) {
	f := newFixture(t)
	c := f.lostAgain()
	f.abandons()
	require.True(t, one[bool](f, `SELECT status = 'ERROR' AND failure_count = 2 AND due_reason = 'retry'
		AND next_sync_at > clock_timestamp() + interval '3 minutes' FROM connectors WHERE id = $1`, c.connector))
	require.Equal(t, "failed: worker lost", one[string](f, `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, c.session))
	c.stores(c.doc(1, "a", "late"), c.completed(1))
	require.Empty(t, c.documents())
}

func TestAWorkerLostTooOftenDisables(t *testing.T) {
	f := newFixture(t)
	only := f.syncing("max_retries = 1")
	only.losesItsWorker()
	last := f.lostAgain("max_retries = 2")
	f.abandons()
	for _, c := range []trip{only, last} {
		require.True(t, one[bool](f, `SELECT status = 'DISABLED' AND failure_count = max_retries AND next_sync_at IS NULL
			AND status_message LIKE 'disabled after % failures in a row: worker lost%' FROM connectors WHERE id = $1`, c.connector))
	}
	require.Zero(t, f.count("open_runs"))
}

func TestAFirstLossIsTheSchedulers(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.losesItsWorker()
	f.abandons()
	c.stillRuns()
}

func TestAWorkerThatLivesOrIsDoneOrHasEverythingStoredIsNotAbandoned(t *testing.T) {
	f := newFixture(t)
	live, draining, whole := f.lostAgain(), f.lostAgain(), f.lostAgain()
	f.exec(`UPDATE workers SET expires_at = clock_timestamp() + interval '1 minute' WHERE id = (SELECT worker_id FROM open_runs WHERE id = $1)`, live.session)
	require.NoError(t, lifecycle.New(f.pool).Drain(ctx, draining.of(), 1))
	f.exec(`UPDATE open_runs SET stored = 3, total = 3, whole = true WHERE id = $1`, whole.session)
	f.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 day'`)
	f.abandons()
	for _, c := range []trip{live, draining, whole} {
		c.stillRuns()
	}
	f.exec(`UPDATE open_runs SET total = 4, whole = false WHERE id = $1`, whole.session)
	f.abandons()
	require.Equal(t, "failed", whole.verdict())
}

func TestAForeignSubscriberIsAbandonedOnlyAfterItsTimeout(t *testing.T) {
	f := newFixture(t)
	c := f.connector()
	movestest.Force(t, f.pool, `UPDATE connectors SET failure_count = 1 WHERE id = $1`, c.connector)
	c.session, c.try = movestest.Claim(t, f.pool, c.connector), uuid.New()
	f.exec(`SELECT moves.pick_up($1, $2, $3)`, c.connector, c.session, c.try)
	f.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '5 hours 59 minutes'`)
	f.abandons()
	c.stillRuns()
	f.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '2 minutes'`)
	f.abandons()
	require.Equal(t, "ERROR", c.status())
	require.Equal(t, "failed", c.verdict())
}

func TestAnAbandonTakesMoreThanOneBatch(t *testing.T) {
	f := newFixture(t)
	f.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'c', 'file', 1, 60 FROM generate_series(1, $1)`, 2*lostBatch+50)
	movestest.Force(t, f.pool, `UPDATE connectors SET failure_count = 1`)
	f.exec(`SELECT moves.claim((SELECT jsonb_agg(jsonb_build_object('id', id, 'run_id', gen_random_uuid())) FROM connectors), clock_timestamp())`)
	f.exec(`SELECT moves.pick_up(id, run_id, gen_random_uuid(), '00000000-0000-0000-0000-000000000001', '1 minute') FROM connectors`)
	f.exec(`UPDATE workers SET expires_at = clock_timestamp() - interval '1 second'`)
	testkit.Eventually(t, soon, func() error { return f.Abandon(ctx) }) // a batch that takes too long is looked at again
	require.Equal(t, int64(2*lostBatch+50), f.count("connectors WHERE status = 'ERROR'"))
	require.Zero(t, f.count("open_runs"))
}

func TestNobodyIsAbandonedInTheFirstLeasePeriod(t *testing.T) {
	f := newFixture(t)
	c := f.lostAgain()
	f.workers = leases.NewWatch(f.servers.Pool, time.Hour, time.Now)
	f.abandons()
	f.abandons()
	c.stillRuns()
}
