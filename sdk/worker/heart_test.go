package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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
	mu    sync.Mutex
	named [][]lifecycle.Try                     // by each heartbeat
	away  func(context.Context) error           // what each meets with; nil = an answer
	lost  func([]lifecycle.Try) []lifecycle.Try // of those that are named; nil = none
}

// meets says what heartbeats meet with from now on.
func (b *beating) meets(away func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// loses says which tries are lost from now on.
func (b *beating) loses(lost func([]lifecycle.Try) []lifecycle.Try) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = lost
}

func (b *beating) answer(ctx context.Context, tries []lifecycle.Try) ([]lifecycle.Try, error) {
	b.mu.Lock()
	b.named = append(b.named, tries)
	away, loses := b.away, b.lost
	b.mu.Unlock()
	if away != nil {
		return nil, away(ctx)
	}
	if loses != nil {
		return loses(tries), nil
	}
	return nil, nil
}

// heartbeats are what each heartbeat until now has named.
func (b *beating) heartbeats() [][]lifecycle.Try {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.named
}

func beat(t *testing.T, body func(t *testing.T, h *beating, pass func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &beating{heart: newHeart(&lifecycle.Lifecycle{}, testLease, newMetrics(prometheus.NewRegistry(), "file", 1),
			slog.New(slog.DiscardHandler))}
		b.beat = func(ctx context.Context, worker uuid.UUID, lease time.Duration, tries []lifecycle.Try) ([]lifecycle.Try, error) {
			require.Equal(t, b.worker, worker)
			require.Equal(t, testLease, lease)
			return b.answer(ctx, tries)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.run(ctx); close(ended) }()
		defer func() { cancel(); <-ended }() // also where the body fails: else the time in here would pass for ever
		synctest.Wait()
		body(t, b, func(d time.Duration) { <-time.After(d); synctest.Wait() })
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
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		require.Len(t, h.heartbeats(), 1, "before anything is pulled")
		<-h.first
		pass(testLease)
		require.Len(t, h.heartbeats(), 4)
		require.Empty(t, h.heartbeats()[3])
		try, _, _, letGo := h.inHand(t)
		pass(testLease / 3)
		require.Equal(t, []lifecycle.Try{try}, h.heartbeats()[4])
		require.InDelta(t, 1, testutil.ToFloat64(h.metrics.leases), 0)
		letGo()
		letGo()
		pass(testLease / 3)
		require.Empty(t, h.heartbeats()[5])
		require.InDelta(t, 0, testutil.ToFloat64(h.metrics.leases), 0)
	})
}

func TestARunThatIsNamedAsLostEndsAndNoOther(t *testing.T) {
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		lost, _, ended, _ := h.inHand(t)
		_, _, goesOn, _ := h.inHand(t)
		h.loses(func([]lifecycle.Try) []lifecycle.Try { return []lifecycle.Try{lost} })
		pass(testLease / 3)
		require.ErrorIs(t, context.Cause(ended), lifecycle.ErrFenced)
		require.NoError(t, context.Cause(goesOn))
		require.InDelta(t, 1, testutil.ToFloat64(h.metrics.renewals.WithLabelValues(fenced)), 0)
	})
}

func TestAnAnswerThatComesAfterARunWasLetGoDoesNotEndIt(t *testing.T) {
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		_, _, run, letGo := h.inHand(t)
		h.loses(func(named []lifecycle.Try) []lifecycle.Try {
			letGo() // while the heartbeat is on its way
			return named
		})
		pass(testLease / 3)
		require.NoError(t, context.Cause(run))
	})
}

func TestARunThatIsBeingPickedUpIsNamedAndEndsByNoAnswerToThat(t *testing.T) {
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		try, refused := lifecycle.Try{Run: uuid.New(), ID: uuid.New()}, lifecycle.Try{Run: uuid.New(), ID: uuid.New()}
		h.await(try)
		end := h.await(refused)
		run, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		clock := startClock(time.Hour, func() {})
		defer clock.stop()
		var letGo func()
		h.loses(func(named []lifecycle.Try) []lifecycle.Try {
			letGo = h.hold(try, clock, cancel) // picked up while the heartbeat is on its way
			h.loses(nil)
			return named
		})
		pass(testLease / 3)
		require.ElementsMatch(t, []lifecycle.Try{try, refused}, h.heartbeats()[1])
		require.NoError(t, context.Cause(run))
		end()
		pass(testLease / 3)
		require.Equal(t, []lifecycle.Try{try}, h.heartbeats()[2], "once, now that it is in hand")
		letGo()
		pass(testLease / 3)
		require.Empty(t, h.heartbeats()[3])
	})
}

func TestATryThatIsNotPickedUpEndsNoOtherOfItsRun(t *testing.T) {
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		first, _, run, _ := h.inHand(t)
		repeated := lifecycle.Try{Run: first.Run, ID: uuid.New()}
		defer h.await(repeated)()
		h.loses(func([]lifecycle.Try) []lifecycle.Try { return []lifecycle.Try{repeated} })
		pass(testLease / 3)
		require.ElementsMatch(t, []lifecycle.Try{first, repeated}, h.heartbeats()[1])
		require.NoError(t, context.Cause(run))
		h.loses(func([]lifecycle.Try) []lifecycle.Try { return []lifecycle.Try{first} })
		pass(testLease / 3)
		require.ErrorIs(t, context.Cause(run), lifecycle.ErrFenced)
	})
}

func TestASecondTryOfARunEndsTheFirst(t *testing.T) {
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		first, clock, ended, letGoFirst := h.inHand(t)
		second := lifecycle.Try{Run: first.Run, ID: uuid.New()}
		run, end := context.WithCancelCause(t.Context())
		letGo := h.hold(second, clock, end)
		require.ErrorIs(t, context.Cause(ended), lifecycle.ErrFenced)
		letGoFirst()
		pass(testLease / 3)
		require.Equal(t, []lifecycle.Try{second}, h.heartbeats()[1])
		require.NoError(t, context.Cause(run))
		letGo()
		require.InDelta(t, 0, testutil.ToFloat64(h.metrics.leases), 0)
		end(nil)
	})
}

func TestTheGateIsShutOnceAWholeLeasePassedWithoutAnAnswer(t *testing.T) {
	for name, away := range map[string]func(context.Context) error{"refused": refused, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
				_, _, run, _ := h.inHand(t)
				h.meets(away) // from right after an answer
				pass(testLease - time.Millisecond)
				require.True(t, h.gate.isOpen())
				pass(time.Millisecond)
				require.False(t, h.gate.isOpen())
				pass(time.Hour)
				require.False(t, h.gate.isOpen())
				require.NoError(t, context.Cause(run), "nobody has said that it is lost")
				h.meets(nil)
				pass(testLease)
				require.True(t, h.gate.isOpen())
				h.meets(away)
				pass(2 * testLease)
				require.False(t, h.gate.isOpen(), "the second time")
			})
		})
	}
}

func TestWhileTheGateIsShutNoRunGrowsTooLong(t *testing.T) {
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		_, _, before, _ := h.inHand(t) // may work for an hour
		h.meets(refused)
		pass(24 * time.Hour)
		_, _, during, _ := h.inHand(t)
		pass(24 * time.Hour)
		h.meets(nil)
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
	beat(t, func(t *testing.T, h *beating, pass func(time.Duration)) {
		lost, _, run, _ := h.inHand(t)
		h.meets(refused)
		pass(2 * testLease)
		h.meets(nil)
		passed := make(chan error, 1)
		go func() { passed <- h.gate.wait(run) }()
		h.loses(func([]lifecycle.Try) []lifecycle.Try { return []lifecycle.Try{lost} })
		pass(testLease / 3)
		require.ErrorIs(t, context.Cause(run), lifecycle.ErrFenced)
		require.Error(t, <-passed)
	})
}

func TestThePauseForAConnectorThatSomebodyHoldsGrowsAndIsBounded(t *testing.T) {
	require.Equal(t, heldPauses.First, heldPauseAt(0))
	require.Equal(t, heldPauses.First, heldPauseAt(1))
	require.Equal(t, 2*heldPauses.First, heldPauseAt(2))
	for _, delivery := range []uint64{6, 100, 1 << 63} {
		require.Equal(t, heldPauses.Last, heldPauseAt(delivery))
	}
}
