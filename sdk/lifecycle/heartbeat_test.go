package lifecycle_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

// beats sends the heartbeat of a trip's worker, which names the trip alone.
func (f *fixture) beats(c trip) error {
	f.t.Helper()
	lost, err := f.Heartbeat(ctx, c.worker, lease, []lifecycle.Try{c.try})
	if err == nil && slices.Contains(lost, c.try) {
		return lifecycle.ErrFenced
	}
	return err
}

// lose lets the lease of a trip's worker run out.
func (f *fixture) lose(c trip) {
	f.t.Helper()
	f.exec(`UPDATE workers SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, c.worker)
}

// silent are the workers whose lease has run out, as a watch sees them that has been patient.
const silent = `(SELECT coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'beats', w.beats)), '[]')
	FROM workers w WHERE w.expires_at < clock_timestamp())`

// rescue does what the scheduler does for lost workers, and says for how many runs.
func (f *fixture) rescue() int {
	f.t.Helper()
	return one[int](f, `SELECT count(*)::integer FROM moves.rescue(`+silent+`, '6 hours', 100)`)
}

// abandon does what semantic does for workers that are lost again.
func (f *fixture) abandon() int {
	f.t.Helper()
	return one[int](f, `SELECT count(*)::integer FROM moves.abandon(`+silent+`, '6 hours', 100)`)
}

// with gives a trip's worker another run to hold.
func (f *fixture) with(c trip) trip {
	f.t.Helper()
	other := f.pending()
	other.worker = c.worker
	require.NoError(f.t, f.PickUp(ctx, other.id, other.try, other.worker, lease))
	return other
}

func TestAHeartbeatRevivesAnExpiredLeaseThatNobodyTook(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.lose(c)
	require.NoError(t, f.beats(c))
	require.True(t, one[bool](f, `SELECT expires_at > clock_timestamp() + interval '10 s' FROM workers WHERE id = $1`, c.worker))
	require.Zero(t, f.rescue())
	require.NoError(t, f.Drain(ctx, c.try, 7))
}

func TestAWorkerThatBeatsAfterItWasLookedAtIsNotLost(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.lose(c)
	seen := one[string](f, `SELECT `+silent+`::text`)
	require.NoError(t, f.beats(c))
	f.lose(c) // by the clock alone
	require.Zero(t, one[int](f, `SELECT count(*)::integer FROM moves.rescue($1::text::jsonb, '6 hours', 100)`, seen))
	require.NoError(t, f.beats(c))
}

func TestOneHeartbeatKeepsEveryRunOfAWorker(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	others := []trip{f.with(c), f.with(c)}
	f.lose(c)
	lost, err := f.Heartbeat(ctx, c.worker, lease, []lifecycle.Try{c.try, others[0].try, others[1].try})
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Zero(t, f.rescue())
	require.Equal(t, 1, one[int](f, `SELECT count(*)::integer FROM workers`))
}

func TestAHeartbeatNamesTheRunsThatAreLost(t *testing.T) {
	f := newFixture(t)
	kept := f.syncing()
	failed, disabled, drained, changed := f.with(kept), f.with(kept), f.with(kept), f.with(kept)
	taken, rescued, cancelled, never := f.with(kept), f.with(kept), f.with(kept), f.pending()
	require.NoError(t, f.Fail(ctx, failed.try, lifecycle.Transient, "no"))
	require.NoError(t, f.Disable(ctx, disabled.id))
	require.NoError(t, f.Cancel(ctx, cancelled.try.Run, "cancelled by ada"))
	require.NoError(t, f.Drain(ctx, drained.try, 7))
	f.exec(`UPDATE connectors SET config = '{"a": 1}' WHERE id = $1`, changed.id)
	f.exec(`UPDATE open_runs SET try_id = $2 WHERE id = $1`, taken.try.Run, uuid.New())
	f.exec(`UPDATE open_runs SET worker_id = $2 WHERE id = $1`, rescued.try.Run, uuid.New())
	var tries []lifecycle.Try
	for _, c := range []trip{kept, failed, disabled, drained, changed, taken, rescued, cancelled, never} {
		tries = append(tries, c.try)
	}
	lost, err := f.Heartbeat(ctx, kept.worker, lease, tries)
	require.NoError(t, err)
	require.ElementsMatch(t, []lifecycle.Try{
		failed.try, disabled.try, drained.try, changed.try, taken.try, rescued.try, cancelled.try, never.try,
	}, lost)
}

// A living worker would keep for ever what it does not know it has.
func TestARunThatItsWorkerDoesNotNameIsRescuedThoughTheWorkerLives(t *testing.T) {
	f := newFixture(t)
	named := f.syncing()
	forgotten, young := f.with(named), f.with(named)
	f.exec(`UPDATE open_runs SET picked_up_at = clock_timestamp() - interval '1 minute' WHERE id = ANY($1)`,
		[]uuid.UUID{named.try.Run, forgotten.try.Run})
	_, err := f.Heartbeat(ctx, named.worker, lease, nil)
	require.NoError(t, err)
	require.Equal(t, 2, f.rescue(), "one that names none holds none, but for what it may be picking up now")
	require.ErrorIs(t, f.beats(forgotten), lifecycle.ErrFenced)
	require.NoError(t, f.beats(young))
}

func TestAHeartbeatThatNamesNothingAtAllKeepsEverything(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.exec(`UPDATE open_runs SET picked_up_at = clock_timestamp() - interval '1 minute'`)
	f.exec(`SELECT moves.heartbeat($1, '15 s', NULL, NULL)`, c.worker)
	require.NoError(t, f.beats(c))
}

func TestAHeartbeatNeverTakesBackALeaseThatWasGivenUp(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, f.Drain(ctx, c.try, 7))
	require.ErrorIs(t, f.beats(c), lifecycle.ErrFenced)
	require.True(t, run[bool](f, c, "worker_id IS NULL AND drain_seq = 7"))
}

// A worker names also what waits to be picked up: of a trigger that came again that is another try of a run which it has.
func TestOfTwoTriesOfOneRunAHeartbeatNamesTheOneThatIsNotTheRuns(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	repeated := lifecycle.Try{Run: c.try.Run, ID: uuid.New()}
	for _, tries := range [][]lifecycle.Try{{c.try, repeated}, {repeated, c.try}} {
		lost, err := f.Heartbeat(ctx, c.worker, lease, tries)
		require.NoError(t, err)
		require.Equal(t, []lifecycle.Try{repeated}, lost)
	}
	require.NoError(t, f.Drain(ctx, c.try, 7))
}
