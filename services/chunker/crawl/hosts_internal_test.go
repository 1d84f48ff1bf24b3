package crawl

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const host1 = "site.example"

// newUser is an owner's use of a host, with a clock that advances only in waits.
func standing(hosts *Hosts, owner string, now *time.Time, waits *[]time.Duration) *hostUser {
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
	g := standing(hosts, "held", &now, &waits)
	defer g.leave()
	st := g.join(host1)
	st.held["held"] = now.Add(time.Minute)
	_, held := g.start(st, now, 0)
	require.True(t, held)
	_, held = standing(hosts, "other", &now, &waits).start(st, now, time.Second)
	require.False(t, held)
	require.Equal(t, now.Add(time.Second), st.next, "who is held moves nobody's start")

	release, err := g.acquire(t.Context(), host1, 0)
	require.NoError(t, err)
	release()
	require.Equal(t, []time.Duration{time.Minute}, waits)
}

func TestOwnersWhoMayComeBackAreForgotten(t *testing.T) {
	hosts, now, waits := NewHosts(), time.Now(), []time.Duration(nil)
	for _, owner := range []string{"a", "b", "c"} {
		g := standing(hosts, owner, &now, &waits)
		defer g.leave()
		g.hold(host1, time.Second)
		now = now.Add(time.Second)
	}
	require.Len(t, hosts.hosts[host1].held, 1)
	require.Contains(t, hosts.hosts[host1].held, "c")
}
