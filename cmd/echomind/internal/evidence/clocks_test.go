package evidence_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/evidence"
)

func TestWhySaysHowTheNextSlotWasDecidedWhereTheClocksChange(t *testing.T) {
	t.Parallel()
	moment := func(text string) *time.Time {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return &at
	}
	for _, c := range []struct {
		name, cron, through, next string
		gap, overlap              *string
		says                      string
	}{
		{"after the gap", "30 2 * * *", "2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", nil, nil,
			"on 2026-03-29 the clocks go from 02:00 to 03:00: slot 02:30, which they leave out, runs at 03:00 (dst_gap after, the default of such a schedule)"},
		{"before the gap", "*/20 2 * * *", "2026-03-28T01:40:00Z", "2026-03-29T00:59:00Z", new("before"), nil,
			"slot 02:00 to 02:40 (3), which they leave out, runs in the last minute before (dst_gap before)"},
		{"skipped", "30 2 * * *", "2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", new("skip"), nil,
			"slot 02:30, which they leave out, does not run (dst_gap skip)"},
		{"the second time", "30 2 * * *", "2026-10-24T00:30:00Z", "2026-10-25T01:30:00Z", nil, new("second"),
			"on 2026-10-25 the clocks go from 03:00 to 02:00: slot 02:30, which they show twice, runs the second time (dst_overlap second)"},
		{"both times", "0 * * * *", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", nil, nil,
			"slot 02:00, which they show twice, runs both times (dst_overlap both, the default of such a schedule)"},
		{"no change", "30 2 * * *", "2026-06-24T00:30:00Z", "2026-06-25T00:30:00Z", nil, nil,
			`schedule: "30 2 * * *" in Europe/Berlin; next slot Thu 2026-06-25 02:30 +02:00`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := evidence.Explain(evidence.Evidence{Now: moment(c.next).Add(-time.Minute), Connector: evidence.Connector{
				ID: 1, Status: "ACTIVE", ScheduleCron: &c.cron, TimeZone: "Europe/Berlin", DstGap: c.gap, DstOverlap: c.overlap,
				DueReason: new("schedule"), NextSyncAt: moment(c.next), PlannedThrough: moment(c.through),
			}})
			require.Equal(t, evidence.WaitsForSlot, answer.Cause)
			said := strings.Join(answer.Evidence, "\n")
			require.Contains(t, said, c.says)
			require.Equal(t, c.name != "no change", strings.Contains(said, "the clocks go"), said)
		})
	}
}
