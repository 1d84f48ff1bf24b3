package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

const testLease = 15 * time.Second

// beating is a heart whose heartbeats a test answers, on time that passes only when everything waits.
type beating struct {
	*heart
	named [][]lifecycle.Try                     // by each heartbeat
	away  func(context.Context) error           // what each meets with; nil = an answer
	lost  func([]lifecycle.Try) []lifecycle.Try // of those that are named
}

func beat(t *testing.T, body func(h *beating, pass func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &beating{heart: newHeart(&lifecycle.Lifecycle{}, testLease, newMetrics(prometheus.NewRegistry(), "file", 1),
			slog.New(slog.DiscardHandler))}
		b.beat = func(ctx context.Context, worker uuid.UUID, lease time.Duration, tries []lifecycle.Try) (lost []uuid.UUID, err error) {
			require.Equal(t, b.worker, worker)
			require.Equal(t, testLease, lease)
			b.named = append(b.named, tries)
			if b.away != nil {
				return nil, b.away(ctx)
			}
			if b.lost != nil {
				for _, try := range b.lost(tries) {
					lost = append(lost, try.Run)
				}
			}
			return lost, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.run(ctx); close(ended) }()
		synctest.Wait()
		body(b, func(d time.Duration) { <-time.After(d); synctest.Wait() })
		cancel()
		<-ended
	})
}

func refused(context.Context) error { return errors.New("Postgres is away") }

func silent(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// inHand is a run that the heart keeps.
func (b *beating) inHand(t *testing.T) (try lifecycle.Try, clock *workClock, run context.Context, letGo func()) {
	t.Helper()
	run, end := context.WithCancelCause(t.Context())
	t.Cleanup(func() { end(nil) })
	try, clock = lifecycle.Try{Run: uuid.New(), ID: uuid.New()}, startClock(time.Hour, func() { end(errTooLong) })
	t.Cleanup(clock.stop)
	return try, clock, run, b.hold(try, clock, end)
}

func TestAWorkerBeatsThreeTimesALeaseAlsoWithNothingInHand(t *testing.T) {
	beat(t, func(h *beating, pass func(time.Duration)) {
		require.Len(t, h.named, 1, "before anything is pulled")
		<-h.first
		pass(testLease)
		require.Len(t, h.named, 4)
		require.Empty(t, h.named[3])
		try, _, _, letGo := h.inHand(t)
		pass(testLease / 3)
		require.Equal(t, []lifecycle.Try{try}, h.named[4])
		require.InDelta(t, 1, testutil.ToFloat64(h.metrics.leases), 0)
		letGo()
		letGo()
		pass(testLease / 3)
		require.Empty(t, h.named[5])
		require.InDelta(t, 0, testutil.ToFloat64(h.metrics.leases), 0)
	})
}

func TestARunThatIsNamedAsLostEndsAndNoOther(t *testing.T) {
	beat(t, func(h *beating, pass func(time.Duration)) {
		lost, _, ended, _ := h.inHand(t)
		_, _, goesOn, _ := h.inHand(t)
		h.lost = func([]lifecycle.Try) []lifecycle.Try { return []lifecycle.Try{lost} }
		pass(testLease / 3)
		require.ErrorIs(t, context.Cause(ended), lifecycle.ErrFenced)
		require.NoError(t, context.Cause(goesOn))
		require.InDelta(t, 1, testutil.ToFloat64(h.metrics.renewals.WithLabelValues(fenced)), 0)
	})
}

func TestAnAnswerThatComesAfterARunWasLetGoDoesNotEndIt(t *testing.T) {
	beat(t, func(h *beating, pass func(time.Duration)) {
		_, _, run, letGo := h.inHand(t)
		h.lost = func(named []lifecycle.Try) []lifecycle.Try {
			letGo() // while the heartbeat is on its way
			return named
		}
		pass(testLease / 3)
		require.NoError(t, context.Cause(run))
	})
}

func TestASecondTryOfARunEndsTheFirst(t *testing.T) {
	beat(t, func(h *beating, pass func(time.Duration)) {
		first, clock, ended, letGoFirst := h.inHand(t)
		second := lifecycle.Try{Run: first.Run, ID: uuid.New()}
		run, end := context.WithCancelCause(t.Context())
		letGo := h.hold(second, clock, end)
		require.ErrorIs(t, context.Cause(ended), lifecycle.ErrFenced)
		letGoFirst()
		pass(testLease / 3)
		require.Equal(t, []lifecycle.Try{second}, h.named[len(h.named)-1])
		require.NoError(t, context.Cause(run))
		letGo()
		require.InDelta(t, 0, testutil.ToFloat64(h.metrics.leases), 0)
		end(nil)
	})
}

func TestTheGateIsShutOnceAWholeLeasePassedWithoutAnAnswer(t *testing.T) {
	for name, away := range map[string]func(context.Context) error{"refused": refused, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			beat(t, func(h *beating, pass func(time.Duration)) {
				_, _, run, _ := h.inHand(t)
				h.away = away // from right after an answer
				pass(testLease - time.Millisecond)
				require.True(t, h.gate.isOpen())
				pass(time.Millisecond)
				require.False(t, h.gate.isOpen())
				pass(time.Hour)
				require.False(t, h.gate.isOpen())
				require.NoError(t, context.Cause(run), "nobody has said that it is lost")
				h.away = nil
				pass(testLease)
				require.True(t, h.gate.isOpen())
				h.away = away
				pass(2 * testLease)
				require.False(t, h.gate.isOpen(), "the second time")
			})
		})
	}
}

func TestWhileTheGateIsShutNoRunGrowsTooLong(t *testing.T) {
	beat(t, func(h *beating, pass func(time.Duration)) {
		_, _, before, _ := h.inHand(t) // may work for an hour
		h.away = refused
		pass(24 * time.Hour)
		_, _, during, _ := h.inHand(t)
		pass(24 * time.Hour)
		h.away = nil
		pass(testLease / 3)
		pass(time.Hour - 2*testLease)
		require.NoError(t, context.Cause(before))
		require.NoError(t, context.Cause(during))
		pass(2 * testLease)
		require.ErrorIs(t, context.Cause(before), errTooLong)
		require.ErrorIs(t, context.Cause(during), errTooLong)
	})
}

func TestARunThatWasLostMeanwhileEndsBeforeTheGateOpens(t *testing.T) {
	beat(t, func(h *beating, pass func(time.Duration)) {
		lost, _, run, _ := h.inHand(t)
		h.away = refused
		pass(2 * testLease)
		h.away = nil
		passed := make(chan error, 1)
		go func() { passed <- h.gate.wait(run) }()
		h.lost = func([]lifecycle.Try) []lifecycle.Try { return []lifecycle.Try{lost} }
		pass(testLease / 3)
		require.ErrorIs(t, context.Cause(run), lifecycle.ErrFenced)
		require.Error(t, <-passed)
	})
}

func TestThePauseForAConnectorThatSomebodyHoldsGrowsAndIsBounded(t *testing.T) {
	require.Equal(t, heldPause, heldPauseAt(0))
	require.Equal(t, heldPause, heldPauseAt(1))
	require.Equal(t, 2*heldPause, heldPauseAt(2))
	for _, delivery := range []uint64{6, 100, 1 << 63} {
		require.Equal(t, heldPauses, heldPauseAt(delivery))
	}
}
