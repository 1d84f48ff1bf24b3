package await_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
)

func TestAReasonSaysNothingTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reason, message, says string }{
		{"", "", ""},
		{"disabled", "", "disabled"},
		{"", "no such folder", "no such folder"},
		{"transient failure", "no such folder", "transient failure: no such folder"},
		{"worker lost", "worker lost: its lease ran out", "worker lost: its lease ran out"},
		{"worker lost", "worker lost", "worker lost"},
	} {
		require.Equal(t, c.says, await.Reason(dbgen.SchedulerRun{Reason: &c.reason, ErrorMessage: &c.message}))
	}
	require.Empty(t, await.Reason(dbgen.SchedulerRun{}))
}
