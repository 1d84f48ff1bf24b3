//go:build !race

package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestAnotherTryOfARunThatIsFetchedChangesNothing(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	before := f.everything(c)
	for name, move := range f.writes(c.another()) {
		require.ErrorIs(t, move(), lifecycle.ErrFenced, name)
	}
	require.Equal(t, before, f.everything(c))
	require.NoError(t, f.beats(c))
	require.NoError(t, f.Drain(ctx, c.try, 7))
}

func TestARunThatWaitsIsReleasedByWhoeverHasItsMessage(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	require.NoError(t, f.Release(ctx, c.another().try))
	require.Equal(t, "ACTIVE", of[string](f, c, "status"))
	require.Equal(t, "superseded", run[string](f, c, "status"))
}

// The standby that took over had not got the pick-up: the message came again, to another worker, under the same run.
func TestAfterAFailoverThatLostAPickUpEveryWriteOfTheFirstTryIsFenced(t *testing.T) {
	f := newFixture(t)
	lost := f.syncing()
	f.force(`UPDATE open_runs SET picked_up_at = NULL, try_id = NULL, worker_id = NULL WHERE id = $1`, lost.try.Run)
	f.force(`UPDATE connectors SET status = 'PENDING' WHERE id = $1`, lost.id)
	stands := lost.another()
	require.NoError(t, f.PickUp(ctx, stands.id, stands.try, stands.worker, lease))
	before := f.everything(stands)
	for name, write := range f.writes(lost) {
		require.ErrorIs(t, write(), lifecycle.ErrFenced, name)
	}
	require.Equal(t, before, f.everything(stands))
	require.NoError(t, f.beats(stands))
	require.NoError(t, f.Drain(ctx, stands.try, 7))
}

func TestSemanticsMovesOfAConnectorThatSomebodyHoldsComeBackAtOnce(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.checkpoints(c, 1)
	f.exec(`UPDATE open_runs SET total = 1, whole = true WHERE id = $1`, c.try.Run)
	letGo := f.hold(c)
	before := f.everything(c)
	for name, move := range map[string]func() error{
		"complete": func() error { _, err := f.Complete(ctx, c.try.Run); return err },
		"advance":  func() error { _, err := f.Advance(ctx, c.try.Run); return err },
	} {
		err := move()
		require.ErrorIs(t, err, lifecycle.ErrHeld, name)
		require.ErrorContains(t, err, "could not obtain lock on row", "%s: NOWAIT says so, and no timeout", name)
	}
	require.Equal(t, before, f.everything(c))
	letGo()
	_, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
}

func TestARunThatTookTooLongGoesOnFromItsCheckpointWithoutCountingAFailure(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.force(`UPDATE connectors SET failure_count = 2 WHERE id = $1`, c.id)
	f.checkpoints(c, 1)
	require.True(t, f.advances(c))
	require.NoError(t, f.Fail(ctx, c.try, lifecycle.TooLong, "too long"))
	require.True(t, of[bool](f, c, `status = 'ERROR' AND failure_count = 2 AND due_reason = 'retry'
		AND next_sync_at <= clock_timestamp() AND status_message = 'too long'`))
	require.Equal(t, page(1), of[string](f, c, "state::text"))
	require.True(t, run[bool](f, c, `status = 'failed' AND reason = 'took too long'`))
}

func TestARunThatTookTooLongWithoutPassingACheckpointIsTransient(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.checkpoints(c, 2) // which waits for what is before it
	require.False(t, f.advances(c))
	require.NoError(t, f.Fail(ctx, c.try, lifecycle.TooLong, "too long"))
	require.True(t, of[bool](f, c, `status = 'ERROR' AND failure_count = 1 AND due_reason = 'retry'
		AND next_sync_at > clock_timestamp() + interval '1 minute'`))
	require.Equal(t, `{}`, of[string](f, c, "state::text"))
}
