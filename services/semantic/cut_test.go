//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

// tookTooLong says that a run has failed so, how many failures its connector counts, and whether it is due at once.
func (c trip) tookTooLong(failures int, due bool, state string) {
	c.f.t.Helper()
	require.Equal(c.f.t, "failed: took too long: it takes its time",
		one[string](c.f, `SELECT status || ': ' || reason || ': ' || error_message FROM scheduler_runs WHERE id = $1`, c.session))
	require.True(c.f.t, one[bool](c.f, `SELECT status = 'ERROR' AND status_message = 'it takes its time' AND due_reason = 'retry'
		AND failure_count = $2 AND (next_sync_at <= clock_timestamp()) = $3 AND state = $4::jsonb AND run_id IS NULL
		FROM connectors WHERE id = $1`, c.connector, failures, due, state))
}

func TestARunThatIsCutWhileSemanticIsAwayFailsWhenItIsStoredAndGoesOnFromItsCheckpoint(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, c.cut(4, 9))
	require.NoError(t, c.cut(4, 9), "again, because the answer was lost")
	c.stores(c.doc(4, "d", "four"), c.checkpoint(3, 3), c.doc(2, "b", "two"))
	c.stillRuns()
	c.stores(c.doc(1, "a", "one"))
	c.tookTooLong(0, true, `{"page": 3}`)
	require.Equal(t, int64(3), f.count("documents WHERE status = 'stored'"))
}

func TestARunThatIsCutWithoutACheckpointCountsAsAFailure(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, c.cut(1, 9))
	c.stores(c.doc(1, "a", "one"))
	c.tookTooLong(1, false, `{}`)
}

func TestARunThatFailsWhenItIsStoredCountsAsAFailureThoughItHasPassedACheckpoint(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, lifecycle.New(f.pool).Cut(ctx, c.of(), 2, 9, lifecycle.Transient, "nothing was deleted"))
	c.stores(c.doc(1, "a", "one"))
	c.stillRuns()
	c.stores(c.checkpoint(2, 2))
	require.Equal(t, "failed: transient failure: nothing was deleted",
		one[string](f, `SELECT status || ': ' || reason || ': ' || error_message FROM scheduler_runs WHERE id = $1`, c.session))
	require.True(t, one[bool](f, `SELECT status = 'ERROR' AND failure_count = 1 AND next_sync_at > clock_timestamp() AND state = '{"page": 2}'
		FROM connectors WHERE id = $1`, c.connector))
	require.Equal(t, int64(1), f.count("documents WHERE status = 'stored'"))
}

func TestARunThatIsCutIsCompletedByALookWhereEverythingIsStoredAlready(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "one"), c.checkpoint(2, 2))
	require.NoError(t, c.cut(2, 9))
	c.stillRuns()
	require.NoError(t, inTime(f.CompleteStored))
	c.tookTooLong(0, true, `{"page": 2}`)
}

func TestARunThatIsCutPassesNoCheckpointBehindAPartThatWaits(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, c.cut(4, 9))
	c.stores(c.checkpoint(4, 4), c.doc(3, "b", "half", part(0, 2)), c.checkpoint(2, 2), c.doc(1, "a", "one"))
	c.tookTooLong(0, true, `{"page": 2}`)
}

// cutToWait gives a run up that its source has asked to wait, as its worker does.
func (c trip) cutToWait(sent int64, place uint64) error {
	c.f.t.Helper()
	return lifecycle.New(c.f.pool).PostponeWhenStored(ctx, c.of(), sent, place, time.Hour, "the drive asked us to wait")
}

// putOff says that a run is postponed, and its connector due in an hour from a state.
func (c trip) putOff(state string) {
	c.f.t.Helper()
	require.Equal(c.f.t, "superseded: postponed: the drive asked us to wait",
		one[string](c.f, `SELECT status || ': ' || reason || ': ' || error_message FROM scheduler_runs WHERE id = $1`, c.session))
	require.True(c.f.t, one[bool](c.f, `SELECT status = 'ACTIVE' AND due_reason = 'wait' AND failure_count = 0 AND state = $2::jsonb AND run_id IS NULL
		AND next_sync_at BETWEEN clock_timestamp() + interval '50 minutes' AND clock_timestamp() + interval '1 hour' FROM connectors WHERE id = $1`,
		c.connector, state))
}

func TestARunThatIsToWaitWhileSemanticIsAwayIsPostponedWhenItIsStoredAndGoesOnFromItsCheckpoint(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, c.cutToWait(4, 9))
	require.NoError(t, c.cutToWait(4, 9), "again, because the answer was lost")
	c.stores(c.doc(4, "d", "four"), c.checkpoint(3, 3), c.doc(2, "b", "two"))
	c.stillRuns()
	c.stores(c.doc(1, "a", "one"))
	c.putOff(`{"page": 3}`)
	require.Equal(t, int64(3), f.count("documents WHERE status = 'stored'"))
}

func TestARunThatIsToWaitIsPostponedByALookWhereEverythingIsStoredAlready(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "one"))
	require.NoError(t, c.cutToWait(1, 9))
	c.stillRuns()
	require.NoError(t, inTime(f.CompleteStored))
	c.putOff(`{}`)
}

func TestSyncCompletedThatComesAfterACutChangesNothing(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, c.cut(2, 9))
	c.stores(c.completed(7), c.doc(1, "a", "one"))
	c.stillRuns()
	require.Equal(t, int64(2), one[int64](f, `SELECT total FROM open_runs WHERE id = $1 AND new_state IS NULL`, c.session))
}

func TestARunWhoseSyncCompletedIsKnownIsNotCut(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.completed(2), c.doc(1, "a", "one"))
	require.ErrorIs(t, c.cut(1, 9), lifecycle.ErrFenced)
	c.stores(c.doc(2, "b", "two"))
	require.Equal(t, "completed", c.verdict())
}

func TestACutThatSaysLessThanIsStoredIsRefused(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(3, "c", "three"))
	require.ErrorContains(t, c.cut(2, 9), "cut: sent is 2, but number 3 is stored already")
	require.ErrorContains(t, c.cut(0, 9), "a run that has sent nothing fails as too_long")
	c.stillRuns()
}

func TestDocumentsOfARunThatIsCutAreLostInTransitLikeOthers(t *testing.T) {
	f := newFlow(t)
	f.missingFor = 0
	c := f.syncing()
	place := f.document()
	require.NoError(t, c.cut(1, place))
	f.lookForDocuments()
	c.stillRuns()
	f.forget(place)
	f.document()
	f.lookForDocuments()
	c.lostInTransit()
}
