package worker

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// clocked runs a test of a clock on time that passes only when everything waits. isLate says whether the clock has run out.
func clocked(t *testing.T, most time.Duration, body func(c *workClock, pass func(time.Duration), isLate func() bool)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		late := make(chan struct{}, 2)
		c := startClock(most, func() { late <- struct{}{} })
		defer c.stop()
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		body(c, pass, func() bool { return len(late) > 0 })
		require.LessOrEqual(t, len(late), 1)
	})
}

func TestARunIsLateAfterItsWork(t *testing.T) {
	clocked(t, time.Minute, func(_ *workClock, pass func(time.Duration), isLate func() bool) {
		pass(time.Minute - time.Nanosecond)
		require.False(t, isLate())
		pass(time.Nanosecond)
		require.True(t, isLate())
	})
}

func TestWaitsAreNoWorkHoweverLongTheyAre(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		for range 3 {
			pass(15 * time.Second)
			over := c.wait(time.Now())
			pass(24 * time.Hour)
			over()
			over() // twice is once
		}
		pass(15*time.Second - time.Nanosecond)
		require.False(t, isLate())
		pass(time.Nanosecond)
		require.True(t, isLate())
	})
}

func TestAWaitThatIsNoticedLateCountsFromItsBeginning(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		pass(20 * time.Second)
		began := time.Now()
		pass(30 * time.Second)
		over := c.wait(began)
		pass(time.Hour)
		over()
		pass(40*time.Second - time.Nanosecond)
		require.False(t, isLate())
		pass(time.Nanosecond)
		require.True(t, isLate())
	})
}

func TestOverlappingWaitsAreCountedOnce(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		first := time.Now()
		a := c.wait(first)
		pass(time.Hour)
		b := c.wait(time.Now())
		pass(time.Hour)
		a()
		pass(time.Hour)
		b()
		c.wait(first)() // began before the others ended
		pass(time.Minute - time.Nanosecond)
		require.False(t, isLate())
		pass(time.Nanosecond)
		require.True(t, isLate())
	})
}

func TestAWaitThatBeginsAsTheTimeRunsOutIsInTime(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		pass(time.Minute - time.Nanosecond)
		over := c.wait(time.Now())
		c.expires() // the timer had fired already
		pass(time.Hour)
		require.False(t, isLate())
		over()
		pass(time.Nanosecond)
		require.True(t, isLate())
	})
}

func TestAStoppedClockIsNeverLate(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		over := c.wait(time.Now())
		c.stop()
		over()
		pass(time.Hour)
		require.False(t, isLate())
	})
}

func TestAWaitThatTheSourceAskedForIsNoWork(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		for range 3 {
			pass(15 * time.Second)
			over, mayWait := c.waitAsAsked(10 * time.Minute)
			require.True(t, mayWait)
			pass(10 * time.Minute)
			over()
			over() // twice is once
		}
		pass(15*time.Second - time.Nanosecond)
		require.False(t, isLate())
		pass(time.Nanosecond)
		require.True(t, isLate())
	})
}

func TestAWaitForTheSourceThatNobodyEndsIsOverWhenItsTimeHasPassed(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		_, mayWait := c.waitAsAsked(10 * time.Minute)
		require.True(t, mayWait)
		pass(11*time.Minute - time.Nanosecond)
		require.False(t, isLate())
		pass(time.Nanosecond)
		require.True(t, isLate())
	})
}

func TestARunWaitsForItsSourceForAnHourAltogether(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		for range 5 {
			over, mayWait := c.waitAsAsked(10 * time.Minute)
			require.True(t, mayWait)
			pass(5 * time.Minute)
			other, mayWait := c.waitAsAsked(5 * time.Minute) // of another request, and counted once
			require.True(t, mayWait)
			pass(5 * time.Minute)
			over()
			other()
		}
		_, mayWait := c.waitAsAsked(10*time.Minute + time.Second)
		require.False(t, mayWait)
		over, mayWait := c.waitAsAsked(10 * time.Minute)
		require.True(t, mayWait)
		pass(time.Second)
		_, mayWait = c.waitAsAsked(10 * time.Minute)
		require.False(t, mayWait, "it would end later")
		pass(10*time.Minute - time.Second)
		over()
		_, mayWait = c.waitAsAsked(time.Second)
		require.False(t, mayWait)
		require.False(t, isLate())
		pass(time.Minute)
		require.True(t, isLate(), "a wait that is refused is none")
	})
}

func TestAnAbsurdWaitIsRefusedAfterAnother(t *testing.T) {
	clocked(t, time.Minute, func(c *workClock, pass func(time.Duration), isLate func() bool) {
		_, may := c.waitAsAsked(math.MaxInt64)
		require.False(t, may)
		over, may := c.waitAsAsked(time.Second)
		require.True(t, may)
		pass(time.Second)
		over()
		_, may = c.waitAsAsked(math.MaxInt64)
		pass(1000 * time.Hour)
		require.False(t, may)
		require.True(t, isLate())
	})
}
