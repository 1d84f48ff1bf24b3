//go:build !race

package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestCompleteOnlyWhereAllIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	for _, counts := range []string{"total = NULL, stored = 2", "total = 3, stored = 2"} {
		f.exec(`UPDATE open_runs SET `+counts+` WHERE id = $1`, c.try.Run)
		before := f.everything(c)
		_, err := f.Complete(ctx, c.try.Run)
		require.ErrorIs(t, err, lifecycle.ErrFenced, counts)
		require.Equal(t, before, f.everything(c), counts)
	}
	f.exec(`UPDATE open_runs SET stored = 3, whole = true, documents_processed = 2, documents_failed = 1, documents_unchanged = 5
		WHERE id = $1`, c.try.Run)
	f.force(`UPDATE connectors SET failure_count = 3 WHERE id = $1`, c.id)
	ended, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.Equal(t, lifecycle.Ended{ConnectorID: c.id, Type: "file", Verdict: lifecycle.Completed}, ended)
	require.Equal(t, "completed", run[string](f, c, "status"))
	require.True(t, of[bool](f, c, `status = 'ACTIVE' AND run_id IS NULL
		AND failure_count = 0 AND docs_analyzed = 8 AND last_sync_at IS NOT NULL`))
	require.InDelta(t, time.Hour, of[time.Duration](f, c, "next_sync_at - clock_timestamp()"), float64(7*time.Minute)) // a tenth of it is its spread
	require.Equal(t, "schedule", of[string](f, c, "due_reason"))
}

func TestTheNewStateIsCommittedWithActive(t *testing.T) {
	f := newFixture(t)
	c := f.stored(1)
	f.exec(`UPDATE open_runs SET new_state = '{"delta":"b"}' WHERE id = $1`, c.try.Run)
	require.Equal(t, `{}`, of[string](f, c, "state::text"))
	_, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.Equal(t, `{"delta": "b"}`, of[string](f, c, "state::text"))
	require.True(t, run[bool](f, c, "new_state IS NULL"))
}

func TestTheStateIsKeptWhereTheRunHasNone(t *testing.T) {
	f := newFixture(t)
	c := f.stored(1)
	f.force(`UPDATE connectors SET state = '{"delta":"a"}' WHERE id = $1`, c.id)
	_, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.Equal(t, `{"delta": "a"}`, of[string](f, c, "state::text"))
}

func TestAFailedRunLeavesTheState(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.exec(`UPDATE open_runs SET total = 2, stored = 1, new_state = '{"delta":"b"}' WHERE id = $1`, c.try.Run)
	require.NoError(t, f.Fail(ctx, c.try, lifecycle.Transient, "no"))
	require.Equal(t, `{}`, of[string](f, c, "state::text"))
	require.True(t, run[bool](f, c, "new_state IS NULL"))
}

func TestNothingToStoreIsSkipped(t *testing.T) {
	f := newFixture(t)
	c := f.stored(0)
	ended, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.Equal(t, lifecycle.Skipped, ended.Verdict)
	require.Equal(t, "skipped", run[string](f, c, "status"))
	require.Equal(t, "ACTIVE", of[string](f, c, "status"))
}

func TestATriggerDuringARunMakesItDueAgainAtOnce(t *testing.T) {
	f := newFixture(t)
	c := f.stored(1)
	f.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, c.id)
	_, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.True(t, of[bool](f, c, "status = 'ACTIVE' AND next_sync_at <= clock_timestamp() AND due_reason = 'manual'"))
}

func TestATriggerBeforeThePickUpIsAnsweredByTheRun(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	f.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, c.id)
	require.NoError(t, f.PickUp(ctx, c.id, c.try, c.worker, lease))
	require.True(t, run[bool](f, c, "trigger_requested_at IS NOT NULL"))
	f.exec(`UPDATE open_runs SET total = 0, whole = true WHERE id = $1`, c.try.Run)
	_, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.True(t, of[bool](f, c, "next_sync_at > clock_timestamp() AND due_reason = 'schedule'"))
}

func TestWholeRunsAreThoseThatOnlyWaitForTheirCompletion(t *testing.T) {
	f := newFixture(t)
	whole, ended := f.stored(2), f.stored(2)
	f.syncing()
	_, err := f.Complete(ctx, ended.try.Run)
	require.NoError(t, err)
	runs, err := f.WholeRuns(ctx, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{whole.try.Run}, runs)
	runs, err = f.WholeRuns(ctx, whole.try.Run)
	require.NoError(t, err)
	require.Empty(t, runs, "behind the last")
}
