package room

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mb = 1 << 20

// asks reserves room in the background; the channel gets the error.
func asks(ctx context.Context, r *Room, owner string, content int64) <-chan *Reservation {
	got := make(chan *Reservation, 1)
	go func() {
		p, _ := r.ForOwner(owner).Take(ctx, content, nil)
		got <- p
	}()
	return got
}

func (r *Room) waits(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.waiting) == n
	}, time.Minute, time.Millisecond)
}

func take(t *testing.T, r *Room, owner string, content int64) *Reservation {
	t.Helper()
	p, err := r.ForOwner(owner).Take(t.Context(), content, nil)
	require.NoError(t, err)
	return p
}

func TestMoreThanThereIsIsNeverTaken(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	var wg sync.WaitGroup
	for _, owner := range []string{"a", "b", "c", "d"} {
		for size := range int64(50) {
			wg.Go(func() {
				p := take(t, r, owner, size*mb/4)
				taken := r.Taken()
				require.LessOrEqual(t, taken, int64(96*mb))
				p.Resize(Cost(size * mb / 8))
				p.Release()
				p.Release()
			})
		}
	}
	wg.Wait()
	require.Zero(t, r.Taken())
	require.Empty(t, r.owners)
}

func TestSmallContentNeverWaits(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	take(t, r, "a", 8*mb)
	take(t, r, "b", 8*mb)
	require.EqualValues(t, 96*mb, r.Taken())
	small := take(t, r, "c", 64<<10)
	require.EqualValues(t, 96*mb, r.Taken())
	small.Resize(mb)
	require.EqualValues(t, 97*mb, r.Taken(), "what it makes counts")
}

func TestAnOwnerHasHalfAtMostAndKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	first := take(t, r, "hostile", 8*mb)
	second := asks(t.Context(), r, "hostile", 8*mb)
	r.waits(t, 1)
	take(t, r, "other", 8*mb).Release()
	first.Release()
	require.NotNil(t, <-second)
}

func TestWhatFallsFreeGoesToTheOwnerWithTheLeast(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	a, b := take(t, r, "a", 4*mb), take(t, r, "b", 8*mb)
	third := take(t, r, "c", 4*mb)
	again := asks(t.Context(), r, "a", 4*mb)
	r.waits(t, 1)
	newcomer := asks(t.Context(), r, "d", 4*mb)
	r.waits(t, 2)
	third.Release()
	require.NotNil(t, <-newcomer)
	r.waits(t, 1)
	b.Release()
	require.NotNil(t, <-again)
	a.Release()
}

func TestWhatIsLargerThanMayBeTakenIsTakenAsThatMuch(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	p := take(t, r, "a", 1<<40)
	require.EqualValues(t, 48*mb, r.Taken())
	p.Resize(Cost(mb))
	require.EqualValues(t, 6*mb, r.Taken())
}

func TestWhatGrowsBeyondTheRoomWaitsForNobodyAndKeepsOthersOut(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	p, q := take(t, r, "a", 8*mb), take(t, r, "b", 8*mb)
	p.Resize(80 * mb)
	require.EqualValues(t, 128*mb, r.Taken())
	late := asks(t.Context(), r, "c", mb)
	r.waits(t, 1)
	q.Resize(0)
	require.NotNil(t, <-late)
	require.EqualValues(t, 86*mb, r.Taken())
}

func TestWhoGivesUpLetsInThoseBehind(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	take(t, r, "a", 6*mb)
	take(t, r, "b", 6*mb)
	ctx, cancel := context.WithCancel(t.Context())
	large := asks(ctx, r, "c", 8*mb)
	r.waits(t, 1)
	small := asks(t.Context(), r, "d", mb)
	r.waits(t, 2)
	cancel()
	require.Nil(t, <-large)
	require.NotNil(t, <-small)
}

func TestWhoseContextEndsWaitsNoLonger(t *testing.T) {
	t.Parallel()
	r := New(96 * mb)
	first := take(t, r, "a", 8*mb)
	ctx, cancel := context.WithCancel(t.Context())
	second := asks(ctx, r, "a", 8*mb)
	r.waits(t, 1)
	cancel()
	require.Nil(t, <-second)
	r.waits(t, 0)
	first.Release()
	require.Zero(t, r.Taken())
	var unbounded *Room
	require.Nil(t, take(t, unbounded, "a", 1<<40))
}
