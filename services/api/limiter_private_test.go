package api

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOthersTakeNobodysLimitAway(t *testing.T) {
	now := time.Now()
	l := newLimiter(1, 2)
	for range 2 {
		require.Zero(t, l.take("over", now))
	}
	for n := range 3 * maxBuckets {
		require.Zero(t, l.take(strconv.Itoa(n), now))
		if n%(maxBuckets/2) == 0 {
			require.Positive(t, l.take("over", now), n)
		}
	}
	require.Len(t, l.buckets, maxBuckets)
	require.Equal(t, maxBuckets, l.used.Len())
	require.Zero(t, l.take("over", now.Add(time.Second)))
	require.Positive(t, l.take("over", now.Add(time.Second)))
	l.give("over", now.Add(time.Second))
	require.Zero(t, l.take("over", now.Add(time.Second)))
}

func TestStrangersShareWhatAnAddressMayTryAndAllTogether(t *testing.T) {
	now := time.Now()
	s := newStrangers(1, 2)
	require.Zero(t, s.take("[2001:db8::1]:80", now))
	require.Zero(t, s.take("[2001:db8::2]:81", now))
	require.Positive(t, s.take("[2001:db8::3]:82", now), "one network")
	for n := range 6 {
		require.Zero(t, s.take("10.0.0."+strconv.Itoa(n)+":80", now))
	}
	require.Positive(t, s.take("10.0.1.1:80", now), "all together")
	s.give("10.0.0.1:80", now)
	require.Zero(t, s.take("10.0.1.1:80", now))
}
