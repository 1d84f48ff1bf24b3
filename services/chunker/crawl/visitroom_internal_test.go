package crawl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/room"
)

// A small page that has arrived does not imply that the page before it has room; that page may wait for the room that a later
// one would take.
func TestAPageTakesRoomOnceEveryOneBeforeItHasDecided(t *testing.T) {
	t.Parallel()
	shared := room.New(room.Cost(1 << 20))
	first := newVisitRoom(nil)
	small := newVisitRoom(first)
	third := newVisitRoom(small)
	small.decide()
	waits, took := make(chan struct{}), make(chan error, 1)
	go func() { took <- third.reserve(t.Context(), shared.ForOwner("a"), 1<<20, func() { close(waits) }) }()
	select {
	case <-waits:
	case err := <-took:
		require.Fail(t, "it takes the room of the first", "%v", err)
	}
	require.NoError(t, first.reserve(t.Context(), shared.ForOwner("a"), 1<<20, func() {}))
	first.release()
	require.NoError(t, <-took)
	third.release()
	require.Zero(t, shared.Taken())
}

func TestWhatASmallPageMakesCountsFromItsTurnOn(t *testing.T) {
	t.Parallel()
	shared := room.New(1 << 20)
	s := newVisitRoom(nil)
	s.resize(300_000)
	require.Zero(t, shared.Taken(), "an earlier page may wait for the room")
	s.countDeferred(shared.ForOwner("a"))
	require.EqualValues(t, 300_000, shared.Taken())
	s.release()
	require.Zero(t, shared.Taken())
}
