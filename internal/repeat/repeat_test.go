package repeat_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/repeat"
)

var pauses = repeat.Pauses{First: 100 * time.Millisecond, Last: 2 * time.Second}

func TestPausesDoubleUpToTheLast(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	for try := 1; try <= 7; try++ {
		got = append(got, pauses.After(try)/time.Millisecond)
	}
	require.Equal(t, []time.Duration{100, 200, 400, 800, 1600, 2000, 2000}, got)
	require.Equal(t, 2*time.Second, pauses.After(math.MaxInt), "and at once")
	require.Equal(t, 100*time.Millisecond, pauses.After(0))
	longest := repeat.Pauses{First: time.Hour, Last: math.MaxInt64}
	require.Equal(t, time.Duration(math.MaxInt64), longest.After(1000), "none overflows")
	require.Equal(t, time.Second, repeat.Pauses{First: time.Minute, Last: time.Second}.After(1), "nor exceeds the last")
}

func TestScatteredPausesAreAtLeastHalfAsLong(t *testing.T) {
	t.Parallel()
	different := map[time.Duration]bool{}
	for range 1000 {
		pause := pauses.Scattered(4)
		require.GreaterOrEqual(t, pause, 400*time.Millisecond)
		require.LessOrEqual(t, pause, 800*time.Millisecond)
		different[pause] = true
	}
	require.Greater(t, len(different), 100)
	require.Zero(t, repeat.Pauses{}.Scattered(math.MaxInt))
}

func TestTriesPauseUntilTheBodyLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		for try := range pauses.Tries(context.Background()) {
			at = append(at, time.Since(began)/time.Millisecond)
			if try == 4 {
				break
			}
		}
		require.Equal(t, []time.Duration{0, 100, 300, 700}, at)
		require.Equal(t, 700*time.Millisecond, time.Since(began), "no pause follows the last try")
	})
}

func TestTriesEndWithTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
		defer cancel()
		began, tries := time.Now(), 0
		for range pauses.Tries(ctx) {
			tries++
		}
		require.Equal(t, 2, tries)
		require.Equal(t, 250*time.Millisecond, time.Since(began))
		for range pauses.Tries(ctx) {
			tries++
		}
		require.Equal(t, 3, tries, "once more where it has ended before")
	})
}

func TestASleepEndsWithTheReasonOfItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(why) })
		began := time.Now()
		require.NoError(t, repeat.Sleep(ctx, 900*time.Millisecond))
		require.ErrorIs(t, repeat.Sleep(ctx, time.Hour), why)
		require.ErrorIs(t, repeat.Sleep(ctx, 0), why, "also where there is nothing to wait for")
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "0": 0, "soon": 0,
		"NaN": 0, "1e300": 24 * time.Hour, "Inf": 24 * time.Hour, "86400000000000000000": 24 * time.Hour,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:00:00 GMT": 0,
		"Tue, 01 Mar 2050 12:00:00 GMT": 24 * time.Hour,
	} {
		require.Equal(t, want, repeat.RetryAfter(http.Header{"Retry-After": {value}}, now), "%q", value)
	}
	require.Zero(t, repeat.RetryAfter(http.Header{}, now))
	skewed := http.Header{"Retry-After": {"Sun, 01 Mar 2026 13:00:05 GMT"}, "Date": {"Sun, 01 Mar 2026 13:00:00 GMT"}}
	require.Equal(t, 5*time.Second, repeat.RetryAfter(skewed, now), "by the sender's clock")
}
