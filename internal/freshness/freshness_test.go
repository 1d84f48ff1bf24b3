package freshness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/freshness"
)

func TestAConnectorIsAsFreshAsItsLastSyncOfItsPresentConfiguration(t *testing.T) {
	now := time.Date(2026, 2, 6, 12, 0, 0, 0, time.UTC)
	day, version, other := int32(1440), int64(7), int64(6)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	for name, c := range map[string]struct {
		of    freshness.Connector
		state freshness.State
		age   int64 // -1 = none
		how   string
	}{
		"in time":              {freshness.Connector{&day, ago(time.Hour), &version, 7}, freshness.Fresh, 3600, "last synced 1h ago, may be 1d old"},
		"to the second":        {freshness.Connector{&day, ago(24 * time.Hour), &version, 7}, freshness.Fresh, 86400, "last synced 1d ago, may be 1d old"},
		"too old":              {freshness.Connector{&day, ago(24*time.Hour + time.Second), &version, 7}, freshness.Late, 86401, "last synced 1d ago, may be 1d old"},
		"no limit":             {freshness.Connector{nil, ago(time.Hour), &version, 7}, freshness.Unknown, 3600, "last synced 1h ago; nobody has said how old it may be"},
		"changed":              {freshness.Connector{&day, ago(time.Hour), &other, 7}, freshness.Unknown, 3600, "last synced 1h ago, and its configuration has changed since"},
		"an unknown version":   {freshness.Connector{&day, ago(time.Hour), nil, 7}, freshness.Unknown, 3600, "last synced 1h ago, and its configuration has changed since"},
		"not yet":              {freshness.Connector{&day, nil, nil, 7}, freshness.Never, -1, "no sync has completed"},
		"not yet, no limit":    {freshness.Connector{nil, nil, nil, 7}, freshness.Never, -1, "no sync has completed"},
		"a clock that stepped": {freshness.Connector{&day, ago(-time.Minute), &version, 7}, freshness.Fresh, 0, "last synced just now, may be 1d old"},
	} {
		t.Run(name, func(t *testing.T) {
			f := freshness.Of(c.of, now)
			require.Equal(t, c.state, f.State)
			require.Equal(t, c.how, f.How)
			require.Equal(t, c.of.FreshWithinMinutes, f.LimitMinutes)
			if c.age < 0 {
				require.Nil(t, f.AgeSeconds)
				return
			}
			require.Equal(t, c.age, *f.AgeSeconds)
		})
	}
}
