package crawl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/room"
)

// A small page that has come says nothing of the one before it, which may yet wait for the room that a later one would take.
func TestAPageTakesRoomOnceEveryOneBeforeItHasDecided(t *testing.T) {
	t.Parallel()
	shared := room.New(room.Cost(1 << 20))
	first := newStay(nil)
	small := newStay(first)
	third := newStay(small)
	small.decide()
	waits, took := make(chan struct{}), make(chan error, 1)
	go func() { took <- third.take(t.Context(), shared.ForOwner("a"), 1<<20, func() { close(waits) }) }()
	select {
	case <-waits:
	case err := <-took:
		require.Fail(t, "it takes the room of the first", "%v", err)
	}
	require.NoError(t, first.take(t.Context(), shared.ForOwner("a"), 1<<20, func() {}))
	first.leave()
	require.NoError(t, <-took)
	third.leave()
	require.Zero(t, shared.Taken())
}

func TestWhatASmallPageMakesCountsFromItsTurnOn(t *testing.T) {
	t.Parallel()
	shared := room.New(1 << 20)
	s := newStay(nil)
	s.hold(300_000)
	require.Zero(t, shared.Taken(), "an earlier page may wait for the room")
	s.turn(shared.ForOwner("a"))
	require.EqualValues(t, 300_000, shared.Taken())
	s.leave()
	require.Zero(t, shared.Taken())
}
