package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
)

func TestThePaceSaysTheRateAndWhatIsLeft(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	total := int64(500)
	run := dbgen.SchedulerRun{ID: uuid.New(), Status: "running", PickedUpAt: &began, Stored: 100}
	var m pace
	require.Empty(t, m.at(await.Progress{Run: &run}, began))
	run.Stored = 300
	require.Equal(t, ", 20/s", m.at(await.Progress{Run: &run}, began.Add(10*time.Second)))
	run.Total = &total
	require.Equal(t, ", 20/s, about 10s left", m.at(await.Progress{Run: &run}, began.Add(10*time.Second)))
	another := dbgen.SchedulerRun{ID: uuid.New(), Status: "running", PickedUpAt: &began, Stored: 3}
	require.Empty(t, m.at(await.Progress{Run: &another}, began.Add(11*time.Second)), "a run that takes its place begins anew")
}

func TestNumbersAloneAreNotALineEach(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var s sparse
	require.True(t, s.due("SYNCING: 1 stored", began))
	require.False(t, s.due("SYNCING: 2 stored", began.Add(time.Second)))
	require.True(t, s.due("SYNCING: 900 stored", began.Add(5*time.Second)))
	require.True(t, s.due("completed: 900 documents", began.Add(6*time.Second)))
}

func TestATableFitsATerminalAndLosesNoReason(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	reason := strings.Repeat("this folder is not there ", 8)
	long := strings.Repeat("handbook", 12) + ".md"
	require.NoError(t, fitted(&out, []string{"ID", "NAME", "STATUS"}, [][]string{{"1", long, "ERROR"}, {"2", "short", "ACTIVE"}}, []string{reason, ""}))
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for _, line := range lines {
		require.LessOrEqual(t, len([]rune(line)), terminalWidth, line)
	}
	require.Contains(t, lines[1], "…")
	require.Contains(t, lines[1], "book.md", "the end of a name tells files apart")
	require.Equal(t, strings.Fields(reason), strings.Fields(strings.Join(lines[2:len(lines)-1], " ")))
	require.Regexp(t, `^2 +short +ACTIVE$`, lines[len(lines)-1])
}
