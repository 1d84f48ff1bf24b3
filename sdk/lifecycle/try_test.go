package lifecycle_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

// another is another try at the same run, by another worker.
func (c trip) another() trip {
	c.try.ID, c.worker = uuid.New(), uuid.New()
	return c
}

// writes are all that a try that fetches can ask for.
func (f *fixture) writes(c trip) map[string]func() error {
	moves := f.moves(c)
	delete(moves, "complete") // semantic's, which names the run alone
	return moves
}

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

// hold locks a connector's row until the returned function is called.
func (f *fixture) hold(c trip) (letGo func()) {
	f.t.Helper()
	tx, err := f.pool.Begin(ctx)
	require.NoError(f.t, err)
	_, err = tx.Exec(ctx, `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, c.id)
	require.NoError(f.t, err)
	return func() { require.NoError(f.t, tx.Rollback(ctx)) }
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

func TestAMoveOfAConnectorThatSomebodyHoldsIsGivenUpUnchanged(t *testing.T) {
	f := newFixture(t)
	waiting, fetched := f.pending(), f.syncing()
	defer f.hold(waiting)()
	defer f.hold(fetched)()
	before := f.everything(waiting) + f.everything(fetched)
	type end struct {
		of  string
		err error
	}
	moves, ended := 0, make(chan end)
	for name, move := range map[string]func() error{
		"pick up": func() error { return f.PickUp(ctx, waiting.id, waiting.try, waiting.worker, lease) },
		"release": func() error { return f.Release(ctx, fetched.try) },
		"fail":    func() error { return f.Fail(ctx, fetched.try, lifecycle.Transient, "no") },
		"disable": func() error { return f.Disable(ctx, fetched.id) },
	} {
		moves++
		go func() { ended <- end{name, move()} }()
	}
	for range moves {
		e := <-ended
		require.ErrorIs(t, e.err, lifecycle.ErrHeld, e.of)
	}
	require.Equal(t, before, f.everything(waiting)+f.everything(fetched))
	require.NoError(t, f.beats(fetched), "the lease does not depend on the connector's row")
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
