package confine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// queueing has a pool's lanes on a clock that stands still, and the owners that got places, in order.
type queueing struct {
	*lanes
	t       *testing.T
	clock   time.Time
	tickets []*ticket
	// pressed are the owners of requests that were asked to give their place back.
	pressed []string
}

func newQueueing(t *testing.T, places int) *queueing {
	q := &queueing{lanes: newLanes(places), t: t, clock: time.Unix(0, 0)}
	q.now = func() time.Time { return q.clock }
	return q
}

func (q *queueing) asks(owner string, in lane, times int) {
	for range times {
		q.tickets = append(q.tickets, q.queue(owner, in, func() { q.pressed = append(q.pressed, owner) }))
	}
}

// working are the owners of the taken places, in the order in which they asked.
func (q *queueing) working() (owners []string) {
	for _, t := range q.tickets {
		if t.has() {
			owners = append(owners, t.owner.name)
		}
	}
	return owners
}

func (t *ticket) has() bool {
	select {
	case <-t.granted:
		return true
	default:
		return false
	}
}

// ends gives the first place of an owner back, after some time.
func (q *queueing) ends(owner string, after time.Duration) {
	for i, t := range q.tickets {
		if t.owner.name == owner && t.has() {
			q.clock = q.clock.Add(after)
			q.tickets = append(q.tickets[:i:i], q.tickets[i+1:]...)
			q.leave(t)
			return
		}
	}
	require.Fail(q.t, "has no place", owner)
}

func TestAnOwnerAloneHasAllPlaces(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 4)
	q.asks("a", fast, 10)
	require.Len(t, q.working(), 4)
}

func TestAPlaceThatFallsFreeGoesToTheOwnerWithTheFewest(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 4)
	q.asks("a", fast, 100)
	q.asks("b", fast, 1)
	q.asks("c", fast, 2)
	q.ends("a", time.Second)
	require.Equal(t, []string{"a", "a", "a", "b"}, q.working())
	q.ends("a", time.Second)
	require.Equal(t, []string{"a", "a", "b", "c"}, q.working())
	q.ends("b", time.Second)
	require.Equal(t, []string{"a", "a", "c", "c"}, q.working(), "c has fewer than a")
}

func TestAmongOwnersWithAsManyTheOneGoesFirstWhoHasUsedLess(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 1)
	q.asks("hog", fast, 100)
	q.asks("light", fast, 100)
	q.ends("hog", 10*time.Second)
	for range 50 {
		require.Equal(t, []string{"light"}, q.working())
		q.ends("light", 10*time.Millisecond)
	}
	require.Equal(t, []string{"light"}, q.working())
}

func TestANewcomerNeitherWaitsForThePastNorTakesAllForIt(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 1)
	q.asks("old", fast, 100)
	q.ends("old", time.Hour)
	q.asks("new", fast, 100)
	for range 10 {
		q.ends("old", time.Second)
		require.Equal(t, []string{"new"}, q.working())
		q.ends("new", time.Second)
		require.Equal(t, []string{"old"}, q.working())
	}
}

func TestTheSlowLaneHasOnePlace(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 4)
	for _, hostile := range []string{"a", "b", "c", "d", "e"} {
		q.asks(hostile, slow, 10)
	}
	require.Equal(t, []string{"a"}, q.working())
	q.asks("z", fast, 10)
	require.Equal(t, []string{"a", "z", "z", "z"}, q.working())
	q.ends("a", time.Minute)
	require.Equal(t, []string{"b", "z", "z", "z"}, q.working(), "and it goes round")
}

func TestHeavyRequestsLeaveOnePlaceToOtherOwners(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 4)
	q.asks("a", heavy, 10)
	require.Len(t, q.working(), 4, "alone it has all")
	q.asks("b", fast, 1)
	q.ends("a", time.Second)
	require.Equal(t, []string{"a", "a", "a", "b"}, q.working())
	q.asks("c", heavy, 1)
	q.ends("b", time.Millisecond)
	q.ends("a", time.Second)
	require.Equal(t, []string{"a", "a", "c"}, q.working())
	q.asks("b", fast, 1)
	require.Equal(t, []string{"a", "a", "c", "b"}, q.working(), "who comes back does not wait")
	q.asks("d", slow, 1)
	q.ends("b", time.Millisecond)
	require.Equal(t, []string{"a", "a", "c", "d"}, q.working(), "the slow lane has its place all the same")
}

func TestTheLanesTakeTurnsWhereThereIsOnePlace(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 1)
	q.asks("slow", slow, 3)
	q.asks("fast", fast, 3)
	for _, next := range []string{"slow", "fast", "slow", "fast", "slow", "fast"} {
		require.Equal(t, []string{next}, q.working())
		q.ends(next, time.Second)
	}
	require.Empty(t, q.owners, "nothing is kept of who has gone")
}

func TestWhoGivesUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, 1)
	leave, err := q.enter(t.Context(), "a", fast, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := q.enter(ctx, "b", fast, nil)
		ended <- err
	}()
	require.Eventually(t, func() bool { return q.waiting() == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	leave()
	leave()
	q.wait()
	require.Empty(t, q.owners)
}

func TestAnOwnerWithSeveralPlacesGivesOneBackToWhoHasNone(t *testing.T) {
	q := newQueueing(t, 3)
	q.patience = time.Second
	q.asks("many", slow, 1)
	q.asks("many", fast, 2)
	q.clock = q.clock.Add(2 * time.Second)
	require.Empty(t, q.pressed, "nobody else waits")
	q.asks("one", fast, 1)
	require.Equal(t, []string{"many"}, q.pressed)
	q.asks("another", fast, 1)
	require.Len(t, q.pressed, 1, "a place is on its way")
	q.leave(q.tickets[1])
	require.Equal(t, 3, q.taken)
	require.Equal(t, []string{"many", "many"}, q.pressed, "the other waits as well, and it has two")
	q.leave(q.tickets[2])
	q.asks("a third", fast, 1)
	require.Len(t, q.pressed, 2, "each has one")
}

func TestAPlaceIsNotAskedForBackBeforeItsTime(t *testing.T) {
	q := newQueueing(t, 2)
	q.patience = time.Hour
	q.asks("many", fast, 2)
	q.asks("one", fast, 1)
	require.Empty(t, q.pressed)
	require.NotNil(t, q.later)
	q.later.Stop()
	q.clock = q.clock.Add(time.Hour)
	q.hurryLater()
	require.Equal(t, []string{"many"}, q.pressed)
}
