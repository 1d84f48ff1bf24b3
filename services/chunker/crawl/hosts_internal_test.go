package crawl

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const host1 = "site.example"

// newUser is an owner's use of a host, with a clock that advances only in waits.
func newUser(hosts *Hosts, owner string, now *time.Time, waits *[]time.Duration) *hostUser {
	return newHostUser(Options{
		Hosts: hosts, Owner: owner, Concurrency: 1,
		Now: func() time.Time { return *now },
		Wait: func(ctx context.Context, d time.Duration) error {
			*waits = append(*waits, d)
			*now = now.Add(d)
			return ctx.Err()
		},
	})
}

func TestAnOwnerWhoIsToldToComeBackWhileItWaitsForASlotWaitsWithoutIt(t *testing.T) {
	hosts, now, waits := NewHosts(), time.Now(), []time.Duration(nil)
	g := newUser(hosts, "held", &now, &waits)
	defer g.leave()
	st := g.join(host1)
	st.pausedUntil["held"] = now.Add(time.Minute)
	_, paused := g.start(st, now, 0)
	require.True(t, paused)
	_, paused = newUser(hosts, "other", &now, &waits).start(st, now, time.Second)
	require.False(t, paused)
	require.Equal(t, now.Add(time.Second), st.next, "who is paused moves nobody's start")

	release, err := g.acquire(t.Context(), host1, 0)
	require.NoError(t, err)
	release()
	require.Equal(t, []time.Duration{time.Minute}, waits)
}

func TestOwnersWhoMayComeBackAreForgotten(t *testing.T) {
	hosts, now, waits := NewHosts(), time.Now(), []time.Duration(nil)
	for _, owner := range []string{"a", "b", "c"} {
		g := newUser(hosts, owner, &now, &waits)
		defer g.leave()
		g.pause(host1, time.Second)
		now = now.Add(time.Second)
	}
	require.Len(t, hosts.hosts[host1].pausedUntil, 1)
	require.Contains(t, hosts.hosts[host1].pausedUntil, "c")
}
