package foresee

import (
	"context"
	"testing"
	"time"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/slots"
)

func TestNothingIsForeseenBehindTheEndOfOneThatWaitsForAWindow(t *testing.T) {
	at := func(hour int) *time.Time { return new(time.Date(2026, 2, 6, hour, 0, 0, 0, time.UTC)) }
	c := Connector{
		Columns: slots.Columns{ID: 1, Cron: new("0 * * * *"), Zone: "UTC", Overlap: slots.OverlapSkip, CatchUp: slots.CatchUpLatest, Through: at(7)},
		Status:  "ACTIVE", DueReason: new("schedule"), NextSyncAt: at(14), SlotAt: at(8), LastSyncAt: at(7), Type: "web",
	}
	l := Look{From: *at(11), Until: *at(13), Most: 100, BlackoutsOf: func(context.Context) ([]blackouts.Row, error) {
		return []blackouts.Row{{Name: "morning", Mode: "defer", TimeZone: "UTC", Entries: []byte(`[{"name": "morning", "start": "2026-02-06T08:00", "end": "2026-02-06T14:00"}]`)}}, nil
	}}
	shown, err := l.Of(t.Context(), c, "hourly", false)
	if err != nil || len(shown.Slots) != 0 {
		t.Errorf("%v, %v", shown.Slots, err)
	}
	l.Until = *at(15)
	if shown, err = l.Of(t.Context(), c, "hourly", false); err != nil || len(shown.Slots) != 3 || !shown.Slots[1].First.Equal(*at(14)) {
		t.Errorf("an hour behind the window: %v, %v", shown.Slots, err)
	}
}
