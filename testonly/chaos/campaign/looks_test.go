package campaign

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALookThatTakesTooLongIsFound(t *testing.T) {
	before := Looks{"a": {all: 5, within: 4}, "b": {all: 2, within: 2}}
	f := Looks{"a": {all: 9, within: 8}, "b": {all: 3, within: 3}, "new": {all: 1, within: 1}}.Since(before)
	require.Empty(t, f.Violations, "the one that was long before")
	require.Equal(t, 6, f.Checked)
	f = Looks{"a": {all: 9, within: 7}}.Since(before)
	require.Equal(t, []string{"a: 1 looks took longer"}, f.Violations)
}

func TestOnlyWhatWorksAQueueOffMayTakeLonger(t *testing.T) {
	for _, look := range []string{"leftovers", "unnamed chunks", "stored runs"} {
		require.Equal(t, sweepBound.Seconds(), boundOf(fmt.Sprintf("look=%q", look)))
	}
	for _, labels := range []string{"", `look="workers"`, `look="checkpoints"`} {
		require.Equal(t, lookBound.Seconds(), boundOf(labels), labels)
	}
}

func TestTheBoundOfABucketIsReadOutOfItsLabels(t *testing.T) {
	for line, want := range map[string]struct {
		metric, kind, labels string
		le                   float64
	}{
		`semantic_look_duration_seconds_bucket{look="leftovers",le="2.5"} 3`:  {"semantic_look", "bucket", `look="leftovers"`, 2.5},
		`scheduler_tick_duration_seconds_bucket{le="+Inf"} 7`:                 {"scheduler_tick", "bucket", "", math.Inf(1)},
		`scheduler_look_duration_seconds_bucket{look="workers",le="4.096"} 3`: {"scheduler_look", "bucket", `look="workers"`, 4.096},
		`scheduler_tick_duration_seconds_count 7`:                             {"scheduler_tick", "count", "", math.Inf(1)},
	} {
		match := looksTook.FindStringSubmatch(line)
		require.NotNil(t, match, line)
		labels, le := splitBound(match[3])
		require.Equal(t, want.metric, match[1])
		require.Equal(t, want.kind, match[2])
		require.Equal(t, want.labels, labels)
		require.Equal(t, want.le, le)
	}
}

func TestTheNameOfAStatementIsItsQueryFiles(t *testing.T) {
	require.Equal(t, "PickUp", statementName("-- name: PickUp :one\nSELECT moves.pick_up($1)"))
	require.Empty(t, statementName("SELECT $1"))
}
