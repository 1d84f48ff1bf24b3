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

	"github.com/echomind/sync/sdk/worker/internal/dbgen"
)

// asking is what runs of a credit of ten are told by a test, on time that passes only when everything waits.
type asking struct {
	*credits
	over  <-chan struct{}             // closed at the end of the test
	meets func(context.Context) error // instead of an answer; set before anybody waits

	at    sync.Mutex
	asked int
	up    map[uuid.UUID]int64 // how far each is stored
	all   int64               // how many messages of anybody's are
}

func (c *asking) total(context.Context) (int64, error) {
	c.at.Lock()
	defer c.at.Unlock()
	return c.all, nil
}

// othersAreStored says that something of another worker's runs is.
func (c *asking) othersAreStored() {
	c.at.Lock()
	defer c.at.Unlock()
	c.all++
}

func (c *asking) answer(ctx context.Context, tries []uuid.UUID) (all []dbgen.StoredUpToRow, err error) {
	c.at.Lock()
	defer c.at.Unlock()
	c.asked++
	if c.meets != nil {
		return nil, c.meets(ctx)
	}
	for _, try := range tries {
		all = append(all, dbgen.StoredUpToRow{TryID: try, No: c.up[try]})
	}
	return all, nil
}

// stores says that a run is stored up to a number.
func (c *asking) stores(r *credit, no int64) {
	c.at.Lock()
	defer c.at.Unlock()
	c.up[r.try] = no
}

// questions is how many were asked.
func (c *asking) questions() int {
	c.at.Lock()
	defer c.at.Unlock()
	return c.asked
}

func asks(t *testing.T, body func(c *asking, pass func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		c := &asking{credits: newCredits(&dbgen.Queries{}, newMetrics(prometheus.NewRegistry(), "file", 1), log), up: map[uuid.UUID]int64{}}
		c.stored, c.storedOfAll = c.answer, c.total
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c.over = ctx.Done()
		go c.run(ctx)
		body(c, func(d time.Duration) { <-time.After(d); synctest.Wait() })
	})
}

// takesUpTo takes numbers one by one, each of a small document.
func (r *credit) takesUpTo(no int64) {
	for n := r.taken + 1; n <= no; n++ {
		r.charge(n, 1)
	}
}

// waiting is a run that has taken numbers and waits, and whether it still does.
func (c *asking) waiting(taken int64) (r *credit, stillWaits func() bool) {
	r = c.of(uuid.New(), 10, c.log)
	return r, c.waits(r, taken)
}

func (c *asking) waits(r *credit, taken int64) (stillWaits func() bool) {
	gone := make(chan struct{})
	r.takesUpTo(taken)
	go func() {
		defer close(gone)
		for more := r.roomOrWait(); more != nil; more = r.roomOrWait() {
			end := r.wait()
			select {
			case <-more:
				end()
			case <-c.over:
				end()
				return
			}
		}
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-gone:
			return false
		default:
			return true
		}
	}
}

func TestNothingIsAskedWhileNoSyncWaits(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		pass(time.Hour)
		require.Zero(t, c.questions())
		r, waits := c.waiting(10)
		pass(10*creditPause - time.Nanosecond)
		require.True(t, waits())
		require.Equal(t, 10, c.questions(), "once a pause")
		c.stores(r, 1)
		pass(creditPause)
		require.False(t, waits())
		asked := c.questions()
		pass(time.Hour)
		require.Equal(t, asked, c.questions())
	})
}

func TestASyncThatWaitsAgainAtOnceIsAskedForAfterThePause(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		r := c.of(uuid.New(), 10, c.log)
		for n := range int64(20) {
			waits := c.waits(r, 10+n)
			require.True(t, waits() || n == 0)
			c.stores(r, 1+n)
			pass(creditPause)
			require.False(t, waits())
		}
		require.InDelta(t, 20, c.questions(), 1)
	})
}

func TestWhatWasLostNeverCostsCredit(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		r, waits := c.waiting(10)
		pass(creditSilence - time.Nanosecond)
		require.True(t, waits())
		pass(2 * creditPause)
		require.False(t, waits(), "nothing is stored of anybody")
		require.InDelta(t, 10, testutil.ToFloat64(c.metrics.writtenOff), 0)

		waits = c.waits(r, 20)
		c.stores(r, 11) // 1 to 10 never are
		pass(2 * creditPause)
		require.False(t, waits())
		waits = c.waits(r, 21)
		pass(2 * creditPause)
		require.True(t, waits(), "and what is written off gives no more than one credit")
		require.InDelta(t, 10, testutil.ToFloat64(c.metrics.writtenOff), 0)
	})
}

func TestWhatWasWrittenOffAndIsStoredAfterAllCounts(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		r, waits := c.waiting(10)
		for n := int64(20); n <= 60; n += 10 { // semantic is away for minutes
			pass(creditSilence + 2*creditPause)
			require.False(t, waits())
			waits = c.waits(r, n)
		}
		for up := int64(1); up <= 50; up += 7 {
			c.stores(r, up)
			pass(creditSilence - time.Second)
			require.True(t, waits(), "stored up to %d of 60", up)
		}
		c.stores(r, 51)
		pass(2 * creditPause)
		require.False(t, waits())
	})
}

func TestASyncBehindOthersWaitsLongerThanOneOfWhichNobodyGetsOn(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		_, waits := c.waiting(10)
		other := c.of(uuid.New(), 10, c.log)
		for n := range int64(11) {
			othersWaits := c.waits(other, 10+n)
			require.True(t, waits())
			pass(creditPatience / 12)
			c.stores(other, 6+n)
			pass(2 * creditPause)
			require.False(t, othersWaits())
		}
		pass(creditPatience / 12)
		require.False(t, waits())
	})
}

func TestLargeSyncsShareTheCredit(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		const runs = 4
		var all []*credit
		var waits []func() bool
		for range runs {
			r := c.of(uuid.New(), 100, c.log)
			all, waits = append(all, r), append(waits, c.waits(r, 100))
		}
		upTo := func(no int64) {
			t.Helper()
			for _, r := range all {
				c.stores(r, no)
			}
			pass(2 * creditPause)
		}
		upTo(75)
		for _, stillWaits := range waits {
			require.True(t, stillWaits(), "25 of 100 stand of each of four")
		}
		upTo(76)
		for _, stillWaits := range waits {
			require.False(t, stillWaits())
		}
		waiting := c.waits(all[0], 150)
		c.stores(all[0], 100)
		pass(2 * creditPause)
		require.True(t, waiting(), "50 stand where others have much, too")
		for _, r := range all[2:] {
			r.end()
		}
		c.stores(all[0], 101)
		pass(2 * creditPause)
		require.False(t, waiting(), "and go on where they have ended")
	})
}

// The answer to a question may come behind the end of a run that was asked for.
func TestASyncThatHasEndedLeavesItsShareWhateverIsAnsweredLater(t *testing.T) {
	asks(t, func(c *asking, _ func(time.Duration)) {
		r := c.of(uuid.New(), 100, c.log)
		r.takesUpTo(100)
		asked := c.runs()
		require.Equal(t, []*credit{r}, asked)
		r.end()
		c.apply(asked, []dbgen.StoredUpToRow{{TryID: r.try, No: 50}})
		require.Empty(t, c.runs())
	})
}

func TestASyncThatIsStoredLeavesItsShareThoughItDoesNotWait(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		quiet := c.of(uuid.New(), 100, c.log)
		quiet.takesUpTo(20)
		r := c.of(uuid.New(), 100, c.log)
		waits := c.waits(r, 100)
		c.stores(r, 40)
		pass(2 * creditPause)
		require.True(t, waits(), "60 stand of one of two")
		c.stores(quiet, 20)
		pass(2 * creditPause)
		require.False(t, waits())
	})
}

func TestWithManyLargeSyncsEachHasATenthOfTheCredit(t *testing.T) {
	asks(t, func(c *asking, _ func(time.Duration)) {
		for range 50 {
			c.of(uuid.New(), 100, c.log).takesUpTo(10)
		}
		r := c.of(uuid.New(), 100, c.log)
		r.takesUpTo(9)
		require.Nil(t, r.roomOrWait())
		r.takesUpTo(10)
		require.NotNil(t, r.roomOrWait())
	})
}

func TestASyncBehindThoseOfOtherWorkersWaitsForItsTurn(t *testing.T) {
	asks(t, func(c *asking, pass func(time.Duration)) {
		_, waits := c.waiting(10)
		const turns = 4
		for range turns {
			pass(creditSilence/2 - time.Second)
			require.True(t, waits())
			c.othersAreStored()
		}
		pass(creditPatience - turns*(creditSilence/2-time.Second) - time.Second)
		require.True(t, waits())
		pass(time.Second + 2*creditPause)
		require.False(t, waits(), "its messages may be lost")
		require.InDelta(t, 10, testutil.ToFloat64(c.metrics.writtenOff), 0)
	})
}

func TestAPostgresThatGivesNoAnswerHoldsNoSyncForLong(t *testing.T) {
	for name, meets := range map[string]func(context.Context) error{
		"silent":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"refuses": func(context.Context) error { return errors.New("no") },
	} {
		t.Run(name, func(t *testing.T) {
			asks(t, func(c *asking, pass func(time.Duration)) {
				c.meets = meets
				_, waits := c.waiting(10)
				pass(creditSilence - time.Nanosecond)
				require.True(t, waits())
				pass(creditTimeout + creditPause)
				require.False(t, waits())
			})
		})
	}
}
