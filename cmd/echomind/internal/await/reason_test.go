package await_test

import (
	"strings"
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

func TestOfAJobItsResultIsToldAndNoDocuments(t *testing.T) {
	t.Parallel()
	run := dbgen.SchedulerRun{Status: "completed", Result: []byte(`{"words": 12, "api_key": "s3cret-of-somebody"}`)}
	connector := dbgen.Connector{ID: 7, Status: "ACTIVE"}
	said := await.Progress{Connector: connector, Run: &run}.String()
	require.Regexp(t, `^completed: \{.*"words": ?12`, said)
	require.NotContains(t, said, "s3cret")
	require.NotContains(t, said, "documents")
	run.Result = []byte(`{"text": "` + strings.Repeat("long ", 1000) + `"}`)
	require.Less(t, len(await.Progress{Connector: connector, Run: &run}.String()), 600)
}
