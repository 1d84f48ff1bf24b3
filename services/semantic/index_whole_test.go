//go:build !race

package semantic

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// whole stores runs of so many documents each whose documents are not in the index yet.
func (x *indexed) whole(documents ...int) (runs []trip) {
	x.t.Helper()
	x.failing.Store(every)
	for _, n := range documents {
		c := x.syncing()
		for no := range int64(n) {
			c.stores(c.doc(no+1, fmt.Sprint("d", no), "zebra"))
		}
		c.stores(c.completed(int64(n)))
		require.Equal(x.t, "running", c.verdict())
		runs = append(runs, c)
	}
	x.failing.Store("")
	return runs
}

func (x *indexed) turns() int64 {
	return one[int64](x.fixture, `SELECT last_value FROM search_index_turns`)
}

func TestRunsThatAreWholeShareTheTurnsOfTheIndex(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	before := x.turns()
	require.NoError(t, x.index.applyChanges(ctx))
	require.LessOrEqual(t, x.turns()-before, int64(3), "one brings all of them, and one finds nothing more")
	for _, c := range runs {
		require.Equal(t, "completed", c.verdict())
	}
	require.NoError(t, x.mirrors())
}

func TestARunOfManyDocumentsKeepsASmallOneWaitingForOneTurn(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(3*turnChanges, 2)
	ids := []uuid.UUID{runs[0].session, runs[1].session}
	more, err := x.index.takeTurn(ctx, ids)
	require.NoError(t, err)
	require.True(t, more)
	waiting, err := x.index.completeFound(ctx, ids)
	require.NoError(t, err)
	require.Equal(t, ids[:1], waiting)
	require.Equal(t, "completed", runs[1].verdict())
	require.NoError(t, x.index.Look(ctx))
	require.Equal(t, "completed", runs[0].verdict())
	require.NoError(t, x.mirrors())
}

func TestARunThatBringsNothingIsCompletedWhileSomebodyHoldsTheTurn(t *testing.T) {
	x := newIndexed(t)
	release := x.holds(`SELECT FROM search_index FOR UPDATE`)
	c := x.syncing()
	c.stores(c.completed(0)) // its turn comes afterwards, and ends at the lock
	require.Equal(t, "skipped", c.verdict())
	require.False(t, x.index.down.Load(), "somebody else's turn is no outage")
	release()
	c = c.again()
	c.stores(c.doc(1, "a", "zebra"), c.completed(1))
	require.Equal(t, "completed", c.verdict(), "at once")
}

func TestRunsAreCompletedByTheNextLookAfterOneThatFailed(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(1, 1, 1)
	require.NoError(t, x.index.Look(ctx)) // and nothing else has named them since
	for _, c := range runs {
		require.Equal(t, "completed", c.verdict())
	}
}

func TestAProcessThatHasNeverSeenThemCompletesWholeRunsWhereverItBegins(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(1, 1, 1, 1)
	started, other := x.another(), x.another()
	require.NotEqual(t, started.wholeAfter, other.wholeAfter)
	require.NotEqual(t, started.checkpointedAfter, other.checkpointedAfter)
	require.NoError(t, started.CompleteStored(ctx))
	require.NoError(t, started.index.catchUp(ctx))
	for _, c := range runs {
		require.Equal(t, "completed", c.verdict())
	}
}

func TestARunStandsInLineOnceAndTheLineIsBounded(t *testing.T) {
	var w wholeRuns
	run := uuid.New()
	w.add(run, run)
	require.Equal(t, []uuid.UUID{run}, w.take(5))
	require.Empty(t, w.take(5))
	w.add(run)
	for range maxWhole + 5 {
		w.add(uuid.New())
	}
	require.True(t, w.isFull())
	require.Equal(t, run, w.take(1)[0])
	require.False(t, w.isFull())
	require.Len(t, w.take(2*maxWhole), maxWhole-1)
}
