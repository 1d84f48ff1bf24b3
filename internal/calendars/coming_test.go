package calendars

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func coming(t *testing.T, zone, entries, moment string) (lines []string) {
	t.Helper()
	all, err := read(t, zone, entries).Coming(t.Context(), when(t, moment), 3)
	require.NoError(t, err)
	for _, s := range all {
		to := "on and on"
		if s.To != nil {
			to = s.To.Format(time.DateTime)
		}
		lines = append(lines, fmt.Sprint(s.From.Format(time.DateTime), " to ", to, " ", s.Name))
	}
	return lines
}

func TestTheNextTimesAreShownWholeAcrossNewYear(t *testing.T) {
	require.Equal(t, []string{"2026-12-24 00:00:00 to 2027-01-02 00:00:00 closed", "2027-12-24 00:00:00 to 2028-01-02 00:00:00 closed", "2028-12-24 00:00:00 to 2029-01-02 00:00:00 closed"},
		coming(t, "UTC", `[{"name": "closed", "start": "2024-12-24", "end": "2025-01-02", "rule": "FREQ=YEARLY"}]`, "2026-11-27 12:00"))
	require.Equal(t, []string{"2026-12-28 12:00:00 to 2027-01-02 00:00:00 closed", "2027-12-24 00:00:00 to 2028-01-02 00:00:00 closed", "2028-12-24 00:00:00 to 2029-01-02 00:00:00 closed"},
		coming(t, "UTC", `[{"name": "closed", "start": "2024-12-24", "end": "2025-01-02", "rule": "FREQ=YEARLY"}]`, "2026-12-28 12:00"), "one that goes on begins at the moment")
}

func TestATimeThatGoesOnIsShownOnceAndWithoutAnEnd(t *testing.T) {
	require.Equal(t, []string{"2026-11-27 12:00:00 to on and on closed"},
		coming(t, "Europe/Berlin", `[{"name": "closed", "start": "2024-01-01", "end": "2025-01-01", "rule": "FREQ=YEARLY"}]`, "2026-11-27 12:00"))
}

func TestTimesOfTheNextTwelveYearsAreShown(t *testing.T) {
	require.Equal(t, []string{"2038-12-30 00:00:00 to 2038-12-31 00:00:00 far"}, coming(t, "UTC", `[{"name": "far", "start": "2038-12-30"}]`, "2026-11-27 12:00"))
	require.Empty(t, coming(t, "UTC", `[{"name": "far", "start": "2045-01-01"}]`, "2026-11-27 12:00"))
}

func TestALookForTimesEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := read(t, "UTC", `[{"name": "x", "start": "2026-12-01", "rule": "FREQ=DAILY"}]`).Coming(ctx, when(t, "2026-11-27 12:00"), 20)
	require.ErrorIs(t, err, context.Canceled)
}

// A calendar within all bounds whose times are rare, and take long to work out, is worked out for each year once.
func TestTheNextTimesAreLookedForInTwelveYearsAltogether(t *testing.T) {
	c := read(t, "UTC", `[{"name": "x", "start": "2026-12-01", "rule": "FREQ=YEARLY;INTERVAL=11"}]`)
	_, err := c.Coming(t.Context(), when(t, "2026-11-27 12:00"), 20)
	require.NoError(t, err)
	require.Len(t, c.years, mostAhead+1)
}
