package fault_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/fault"
)

func TestTheFaultMatrixIsWhatTheHarnessInjects(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reliability.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| fault | may cost |\n|---|---|\n")
	require.True(t, found, "docs/reliability.md has no fault matrix")
	table, _, _ = strings.Cut(table, "\n\n")
	var matrix strings.Builder
	for _, f := range fault.Matrix() {
		fmt.Fprintf(&matrix, "| %s | %s |\n", f.Name, f.Loses)
	}
	require.Equal(t, strings.TrimSpace(matrix.String()), table)
}

func TestTheShortFormPlansEveryFaultOnce(t *testing.T) {
	all := fault.All()
	planned, long, last := map[string]int{}, 0, time.Duration(0)
	for _, next := range fault.Each(all, time.Minute, rand.New(rand.NewPCG(1, 1))) {
		planned[next.Fault.Name]++
		require.GreaterOrEqual(t, next.At, last)
		last = next.At
		require.Less(t, next.At, time.Minute)
		if next.Fault.Long {
			long++
			require.Less(t, next.At, 30*time.Second, next.Fault.Name)
		}
	}
	require.Equal(t, 32, long)
	for _, f := range all {
		require.Equal(t, 1, planned[f.Name], f.Name)
	}
	require.Len(t, planned, len(all))
}

func TestOneSeedIsOneSchedule(t *testing.T) {
	plan := func() (names []string) {
		for _, next := range fault.Mixture(fault.All(), time.Minute, time.Second, rand.New(rand.NewPCG(7, 7))) {
			names = append(names, fmt.Sprint(next.At, next.Fault.Name))
		}
		return names
	}
	require.NotEmpty(t, plan())
	require.Equal(t, plan(), plan())
}
