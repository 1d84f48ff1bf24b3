package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/clock"
)

func TestASpanHasAtMostTwoUnits(t *testing.T) {
	t.Parallel()
	for d, said := range map[time.Duration]string{
		-time.Second:                    "0s",
		850 * time.Microsecond:          "1ms",
		4210 * time.Millisecond:         "4.2s",
		42 * time.Second:                "42s",
		3*time.Minute + 12*time.Second:  "3m12s",
		time.Hour - time.Millisecond:    "60m",
		2 * time.Hour:                   "2h",
		2*time.Hour + 5*time.Minute:     "2h5m",
		3*24*time.Hour + 4*time.Hour:    "3d4h",
		400*24*time.Hour + time.Minute:  "400d",
		24*time.Hour - time.Millisecond: "24h",
	} {
		require.Equal(t, said, clock.Span(d))
	}
}

func TestAMomentIsAsShortAsItsDistanceAllows(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.Local)
	require.Equal(t, "09:30:00", clock.At(time.Date(2026, 3, 5, 9, 30, 0, 0, time.Local), now))
	require.Equal(t, "4 Mar 09:30", clock.At(time.Date(2026, 3, 4, 9, 30, 0, 0, time.Local), now))
	require.Equal(t, "2025-03-05 09:30", clock.At(time.Date(2025, 3, 5, 9, 30, 0, 0, time.Local), now))
	require.Equal(t, "-", clock.Optional(nil, now))
	require.Equal(t, "just now", clock.Ago(now, now))
	require.Equal(t, "now", clock.Until(now, now))
	own, _ := now.Zone()
	require.Equal(t, "at 12:05:00 "+own+" (in 5m)", clock.Until(now.Add(5*time.Minute), now))
	require.Equal(t, "4 Mar 09:30 "+own, clock.InZone(time.Date(2026, 3, 4, 9, 30, 0, 0, time.Local), now), "who reads a sentence may be somewhere else")
	require.Equal(t, "it asked us to wait until 12:05:00 "+own, clock.WaitInZone("it asked us to wait", now.Add(5*time.Minute), now))
}

func TestWhatIsPutOffSaysSinceWhenAfterAnHour(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.Local)
	require.Empty(t, clock.PutOff(nil, now))
	require.Empty(t, clock.PutOff(new(now.Add(-time.Hour+time.Second)), now))
	require.Equal(t, ", put off since 08:00:00", clock.PutOff(new(now.Add(-4*time.Hour)), now))
}
