package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/api/internal/problem"
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

func TestWhatIsFoundOfABadgesLinkIsKeptForAWhileWithinABoundAndAFailureIsNot(t *testing.T) {
	b, began, looked := newBadgesFound(1, 10*mostBadges), time.Now(), 0
	of := func(link byte, n int, after time.Duration, failed error) error {
		_, err := b.of(t.Context(), badgeLink{link, byte(n), byte(n >> 8)}, "10.0.0.1:80", began.Add(after), func(context.Context) ([]byte, error) {
			looked++
			return nil, failed
		})
		return err
	}
	away := errors.New("away")
	require.ErrorIs(t, of(1, 0, 0, away), away)
	require.NoError(t, of(1, 0, 0, nil))
	require.NoError(t, of(1, 0, badgeKept-1, away))
	require.Equal(t, 2, looked)
	require.ErrorIs(t, of(1, 0, badgeKept, away), away)
	for n := range 3*mostBadges + 1 {
		require.NoError(t, of(2, n, badgeKept, nil))
	}
	require.LessOrEqual(t, len(b.latest)+len(b.before), 2*mostBadges)
	was := looked
	require.NoError(t, of(2, 3*mostBadges-1, badgeKept, nil))
	require.Equal(t, was, looked, "of as many as are kept the last ones are known")
}

func TestALinkThatHasLedToABadgeIsLookedForAgainHoweverManyGuess(t *testing.T) {
	b, now := newBadgesFound(0.0001, 1), time.Now()
	image := []byte("image")
	ask := func(link byte) ([]byte, error) {
		return b.of(t.Context(), badgeLink{link}, "10.0.0.1:80", now, func(context.Context) ([]byte, error) { return image, nil })
	}
	found, err := ask(1)
	require.NoError(t, err)
	require.Equal(t, image, found)
	_, err = ask(2)
	require.Equal(t, http.StatusTooManyRequests, problem.Of(err).Status)
	now, image = now.Add(badgeKept), nil // it was revoked
	found, err = ask(1)
	require.NoError(t, err)
	require.Nil(t, found)
	now = now.Add(badgeKept)
	_, err = ask(1)
	require.Equal(t, http.StatusTooManyRequests, problem.Of(err).Status)
}

func TestOneOfThoseWhoAskForABadgeAtOnceLooksAndTakesOfTheLimit(t *testing.T) {
	b, now, looking, look := newBadgesFound(0.001, 1), time.Now(), make(chan struct{}), make(chan struct{})
	answers := make(chan string, 9)
	ask := func(ctx context.Context) {
		image, err := b.of(ctx, badgeLink{}, "10.0.0.1:80", now, func(context.Context) ([]byte, error) {
			close(looking)
			<-look
			return []byte("image"), nil
		})
		if err != nil {
			image = []byte(err.Error())
		}
		answers <- string(image)
	}
	gone, leave := context.WithCancel(t.Context())
	go ask(gone)
	<-looking
	for range cap(answers) - 2 {
		go ask(t.Context())
	}
	leave() // who has begun to look is away: the others are answered all the same
	go ask(gone)
	require.Equal(t, context.Canceled.Error(), <-answers, "who is away waits for nothing")
	close(look)
	got := map[string]int{}
	for range cap(answers) - 1 {
		got[<-answers]++
	}
	require.GreaterOrEqual(t, got["image"], cap(answers)-2, got)
	_, err := b.of(t.Context(), badgeLink{1}, "10.0.0.1:80", now, nil)
	require.Equal(t, http.StatusTooManyRequests, problem.Of(err).Status)
}
