//go:build !race

package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestACancelledRunIsNoFailureAndAnotherIsNot(t *testing.T) {
	f := newFixture(t)
	for _, begin := range []func() trip{f.pending, f.syncing} {
		c := begin()
		require.ErrorIs(t, f.Cancel(ctx, uuid.New(), "cancelled by ada"), lifecycle.ErrUnchanged)
		require.NoError(t, f.Cancel(ctx, c.try.Run, "cancelled by ada\x00\xff"))
		require.Equal(t, "superseded", run[string](f, c, "status"))
		require.Equal(t, "cancelled by ada\uFFFD", run[string](f, c, "error_message"))
		require.True(t, of[bool](f, c, "status = 'ACTIVE' AND failure_count = 0 AND next_sync_at > clock_timestamp()"))
		before := f.everything(c)
		require.ErrorIs(t, f.Cancel(ctx, c.try.Run, "cancelled by ada"), lifecycle.ErrUnchanged)
		require.Equal(t, before, f.everything(c))
	}
}

func TestAStaleRunChangesNothing(t *testing.T) {
	f := newFixture(t)
	for stage, begin := range map[string]func() trip{
		"ACTIVE": f.active, "PENDING": f.pending, "SYNCING": f.syncing, "all stored": func() trip { return f.stored(3) },
	} {
		c := begin()
		stale := c
		stale.try.Run = uuid.New()
		before := f.everything(c)
		for name, move := range f.moves(stale) {
			require.ErrorIs(t, move(), lifecycle.ErrFenced, "%s in %s", name, stage)
		}
		require.Equal(t, before, f.everything(c), stage)
	}
}

func TestAnEndedRunIsNotChanged(t *testing.T) {
	f := newFixture(t)
	for end, with := range map[string]func(trip) error{
		"released":  func(c trip) error { return f.Release(ctx, c.try) },
		"failed":    func(c trip) error { return f.Fail(ctx, c.try, lifecycle.Transient, "no") },
		"complete":  func(c trip) error { _, err := f.Complete(ctx, c.try.Run); return err },
		"disabled":  func(c trip) error { return f.Disable(ctx, c.id) },
		"cancelled": func(c trip) error { return f.Cancel(ctx, c.try.Run, "cancelled by ada") },
	} {
		c := f.stored(3)
		require.NoError(t, with(c), end)
		before := f.everything(c)
		for name, move := range f.moves(c) {
			require.ErrorIs(t, move(), lifecycle.ErrFenced, "%s after %s", name, end)
		}
		require.Equal(t, before, f.everything(c), end)
	}
}

func TestOnlyTheStatusItComesFromLetsAMovePass(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	for name, move := range f.moves(c) {
		if name == "pick up" || name == "release" {
			continue
		}
		require.ErrorIs(t, move(), lifecycle.ErrFenced, name)
	}
	require.Equal(t, "PENDING", of[string](f, c, "status"))
}

func TestPickUpRepeatedByItsTrySucceedsAndByAnotherIsFenced(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	require.NoError(t, f.PickUp(ctx, c.id, c.try, c.worker, lease))
	require.Equal(t, "SYNCING", of[string](f, c, "status"))
	require.NoError(t, f.PickUp(ctx, c.id, c.try, c.worker, lease))
	before := f.everything(c)
	require.ErrorIs(t, f.PickUp(ctx, c.id, c.try, uuid.New(), lease), lifecycle.ErrFenced, "for another worker")
	require.ErrorIs(t, f.PickUp(ctx, c.id, c.another().try, c.worker, lease), lifecycle.ErrFenced, "for another try")
	require.Equal(t, before, f.everything(c))
	require.True(t, run[bool](f, c, "picked_up_at IS NOT NULL"))
}

func TestPickUpOfAnotherConnectorIsFenced(t *testing.T) {
	f := newFixture(t)
	c, other := f.pending(), f.pending()
	require.ErrorIs(t, f.PickUp(ctx, other.id, c.try, c.worker, lease), lifecycle.ErrFenced)
	require.Equal(t, "PENDING", of[string](f, other, "status"))
}

func TestDrainWritesWhereSyncCompletedIsAndWhenFetchingEnded(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, f.Drain(ctx, c.try, 7))
	require.Equal(t, "SYNCING", of[string](f, c, "status"))
	require.Equal(t, int64(7), run[int64](f, c, "drain_seq"))
	require.True(t, run[bool](f, c, "fetched_at IS NOT NULL"))
	require.ErrorIs(t, f.Drain(ctx, c.try, 9), lifecycle.ErrFenced, "twice")
	require.Equal(t, int64(7), run[int64](f, c, "drain_seq"))
}

func TestDrainAfterCompletionIsFenced(t *testing.T) {
	f := newFixture(t)
	c := f.stored(1)
	_, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.ErrorIs(t, f.Drain(ctx, c.try, 7), lifecycle.ErrFenced)
	require.True(t, run[bool](f, c, "drain_seq IS NULL"))
}

func TestReleaseIsDueNowSupersededAndNoFailure(t *testing.T) {
	f := newFixture(t)
	for _, begin := range []func() trip{f.pending, f.syncing} {
		c := begin()
		require.NoError(t, f.Release(ctx, c.try))
		require.Equal(t, "ACTIVE", of[string](f, c, "status"))
		require.True(t, of[bool](f, c, "next_sync_at <= clock_timestamp() AND due_reason = 'release'"))
		require.True(t, of[bool](f, c, "run_id IS NULL AND failure_count = 0"))
		require.Equal(t, "superseded", run[string](f, c, "status"))
	}
}

func TestATransientFailureIsTriedAgainAfterABackoff(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, f.Fail(ctx, c.try, lifecycle.Transient, "timed out"))
	require.Equal(t, "ERROR", of[string](f, c, "status"))
	require.Equal(t, "timed out", of[string](f, c, "status_message"))
	require.Equal(t, int32(1), of[int32](f, c, "failure_count"))
	// min(2^1, 60) minutes, with a fifth of jitter either way.
	require.InDelta(t, 2*time.Minute, of[time.Duration](f, c, "next_sync_at - clock_timestamp()"), float64(30*time.Second))
	require.Equal(t, "retry", of[string](f, c, "due_reason"))
	require.Equal(t, "failed", run[string](f, c, "status"))
	require.Equal(t, "timed out", run[string](f, c, "error_message"))
}

func TestAPermanentFailureIsNotTriedAgainUntilTriggered(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, f.Fail(ctx, c.try, lifecycle.Permanent, "bad password"))
	require.True(t, of[bool](f, c, "status = 'ERROR' AND next_sync_at IS NULL AND failure_count = 1"))
	f.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, c.id)
	require.True(t, of[bool](f, c, "next_sync_at <= clock_timestamp() AND due_reason = 'manual'"))
}

func TestMaxRetriesFailuresInARowDisable(t *testing.T) {
	f := newFixture(t)
	c := f.active()
	f.exec(`UPDATE connectors SET max_retries = 2 WHERE id = $1`, c.id)
	for range 2 {
		c = f.claim(c)
		require.NoError(t, f.PickUp(ctx, c.id, c.try, c.worker, lease))
		require.NoError(t, f.Fail(ctx, c.try, lifecycle.Transient, "timed out"))
	}
	require.True(t, of[bool](f, c, "status = 'DISABLED' AND next_sync_at IS NULL"))
	require.Equal(t, "disabled after 2 failures in a row: timed out", of[string](f, c, "status_message"))
	require.Equal(t, "failed", run[string](f, c, "status"))
	require.NoError(t, f.Enable(ctx, c.id))
	require.True(t, of[bool](f, c, "status = 'ACTIVE' AND failure_count = 0 AND status_message IS NULL"))
}

func TestAFailureMessageIsMadeStorable(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, f.Fail(ctx, c.try, lifecycle.Transient, "a\x00b\xff"+strings.Repeat("é", 5000)))
	message := of[string](f, c, "status_message")
	require.True(t, strings.HasPrefix(message, "ab\uFFFDé"), message[:10])
	require.LessOrEqual(t, len(message), 2003)
}

func TestDisableEndsTheRunAndEnablePlans(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, f.Disable(ctx, c.id))
	require.True(t, of[bool](f, c, "status = 'DISABLED' AND run_id IS NULL AND next_sync_at IS NULL"))
	require.Equal(t, "superseded", run[string](f, c, "status"))
	require.ErrorIs(t, f.Disable(ctx, c.id), lifecycle.ErrUnchanged)
	require.NoError(t, f.Enable(ctx, c.id))
	require.True(t, of[bool](f, c, "status = 'ACTIVE' AND next_sync_at IS NOT NULL"))
	require.ErrorIs(t, f.Enable(ctx, c.id), lifecycle.ErrUnchanged)
	require.ErrorIs(t, f.Enable(ctx, 1_000_000), lifecycle.ErrUnchanged)
}
