package figures_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/bench/figures"
)

// script gives one value after the other.
func script(name string, values ...float64) figures.Measurement {
	next := 0
	return figures.Measurement{Figures: []figures.Figure{{Name: name, Unit: "/s"}}, Take: func(context.Context) ([]float64, error) {
		next++
		return []float64{values[next-1]}, nil
	}}
}

func rowsOf(t *testing.T, g figures.Group, turns int) map[string]figures.Row {
	t.Helper()
	rows, err := g.Measure(t.Context(), turns, func(string) {})
	require.NoError(t, err)
	byName := map[string]figures.Row{}
	for _, r := range rows {
		byName[r.Name] = r
	}
	return byName
}

func TestTheMedianIsTheMiddleAndAQuantileLiesBetweenItsNeighbours(t *testing.T) {
	require.InDelta(t, 2.0, figures.Median([]float64{9, 2, 1}), 0)
	require.InDelta(t, 2.5, figures.Median([]float64{10, 1, 2, 3}), 0)
	require.InDelta(t, 7.0, figures.Median([]float64{7}), 0)
	hundred := make([]float64, 101)
	for i := range hundred {
		hundred[100-i] = float64(i)
	}
	require.InDelta(t, 99.0, figures.Quantile(hundred, 0.99), 1e-9)
	require.InDelta(t, 100.0, figures.Quantile(hundred, 1), 0)
	require.True(t, math.IsNaN(figures.Median(nil)))
}

func TestARatioIsTheMedianOfTheRatiosWithinEachTurn(t *testing.T) {
	// The machine is twice as slow in the second turn and ten times as slow in the third: the ratio does not notice.
	rows := rowsOf(t, figures.Group{
		Measurements: []figures.Measurement{script("ours", 60, 30, 6), script("theirs", 100, 50, 10)},
		Ratios:       []figures.Ratio{{Name: "ratio", Of: "ours", To: []string{"theirs"}, AtLeast: 0.5}},
	}, 3)
	require.InDelta(t, 0.6, rows["ratio"].Median, 1e-9)
	require.InDelta(t, 0.6, rows["ratio"].Lowest, 1e-9)
	require.InDelta(t, 30.0, rows["ours"].Median, 0)
	require.InDelta(t, 6.0, rows["ours"].Lowest, 0)
	require.InDelta(t, 60.0, rows["ours"].Highest, 0)
}

func TestARatioToTheLowerOfTwoTakesTheLowerOfItsOwnTurn(t *testing.T) {
	rows := rowsOf(t, figures.Group{
		Measurements: []figures.Measurement{script("ours", 10, 10, 10), script("a", 20, 100, 100), script("b", 100, 40, 50)},
		Ratios:       []figures.Ratio{{Name: "ratio", Of: "ours", To: []string{"a", "b"}, AtLeast: 0.2}},
	}, 3)
	require.InDelta(t, 0.2, rows["ratio"].Lowest, 1e-9)
	require.InDelta(t, 0.25, rows["ratio"].Median, 1e-9)
	require.InDelta(t, 0.5, rows["ratio"].Highest, 1e-9)
}

func TestEachTurnBeginsWithTheNextMeasurement(t *testing.T) {
	var order []string
	of := func(name string) figures.Measurement {
		return figures.Measurement{Figures: []figures.Figure{{Name: name}}, Take: func(context.Context) ([]float64, error) {
			order = append(order, name)
			return []float64{1}, nil
		}}
	}
	rowsOf(t, figures.Group{Measurements: []figures.Measurement{of("a"), of("b"), of("c")}}, 3)
	require.Equal(t, "abc bca cab", strings.Join([]string{
		strings.Join(order[:3], ""), strings.Join(order[3:6], ""), strings.Join(order[6:], "")}, " "))
}

func TestATargetIsKeptAtItsBoundAndBrokenBeyondTwice(t *testing.T) {
	for name, c := range map[string]struct {
		row          figures.Row
		kept, broken bool
	}{
		"at least, at the bound":  {figures.Row{Median: 0.8, AtLeast: 0.8}, true, false},
		"at least, below":         {figures.Row{Median: 0.79, AtLeast: 0.8}, false, false},
		"at least, half":          {figures.Row{Median: 0.4, AtLeast: 0.8}, false, false},
		"at least, under half":    {figures.Row{Median: 0.39, AtLeast: 0.8}, false, true},
		"at most, at the bound":   {figures.Row{Median: 1.5, AtMost: 1.5}, true, false},
		"at most, above":          {figures.Row{Median: 1.6, AtMost: 1.5}, false, false},
		"at most, over twice":     {figures.Row{Median: 3.1, AtMost: 1.5}, false, true},
		"no target":               {figures.Row{Median: 0.001}, true, false},
		"nothing to compare with": {figures.Row{Median: math.NaN(), AtLeast: 0.8}, false, true},
		"nothing below the bound": {figures.Row{Median: math.NaN(), AtMost: 1.5}, false, true},
	} {
		require.Equal(t, c.kept, c.row.Kept(), name)
		require.Equal(t, c.broken, len(figures.Report{Rows: []figures.Row{c.row}}.Broken()) == 1, name)
	}
}

func TestTheShortFormDoesNotJudgeWhatIsTooNoisyForIt(t *testing.T) {
	noisy := figures.Row{Name: "noisy", Median: 0.1, AtLeast: 0.8, LongOnly: true}
	require.Empty(t, figures.Report{Short: true, Rows: []figures.Row{noisy}}.Broken())
	require.Len(t, figures.Report{Rows: []figures.Row{noisy}}.Broken(), 1)
	noisy.LongOnly = false
	require.Len(t, figures.Report{Short: true, Rows: []figures.Row{noisy}}.Broken(), 1)
}

func TestAGroupThatComparesWhatNobodyMeasuresIsRefusedBeforeItIsMeasured(t *testing.T) {
	g := figures.Group{
		Measurements: []figures.Measurement{script("a")},
		Ratios:       []figures.Ratio{{Name: "r", Of: "a", To: []string{"missing"}}},
	}
	_, err := g.Measure(t.Context(), 1, func(string) {})
	require.ErrorContains(t, err, `names "missing"`)
	_, err = figures.Group{Measurements: []figures.Measurement{script("a"), script("a")}}.Measure(t.Context(), 1, func(string) {})
	require.ErrorContains(t, err, `two figures "a"`)
}

func TestAMeasurementThatFailsOrGivesTooFewFiguresEndsTheRun(t *testing.T) {
	failed := errors.New("no server")
	_, err := figures.Group{Measurements: []figures.Measurement{{
		Figures: []figures.Figure{{Name: "a"}}, Take: func(context.Context) ([]float64, error) { return nil, failed },
	}}}.Measure(t.Context(), 1, func(string) {})
	require.ErrorIs(t, err, failed)
	_, err = figures.Group{Measurements: []figures.Measurement{{
		Figures: []figures.Figure{{Name: "a"}, {Name: "b"}}, Take: func(context.Context) ([]float64, error) { return []float64{1}, nil },
	}}}.Measure(t.Context(), 1, func(string) {})
	require.ErrorContains(t, err, "1 figures came, 2 have a name")
}

func report() figures.Report {
	return figures.Report{
		Machine: figures.Machine{Processor: "Test CPU", Cores: 2, Memory: "1 GB", System: "linux/amd64", Load: "0.1",
			Sync: time.Millisecond, Versions: []string{"Postgres 15"}},
		Taken: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC),
		Rows: []figures.Row{
			{Group: "dispatch", Name: "ours", Unit: "/s", Median: 1234567.4, Lowest: 999.6, Highest: -1234, Turns: 3},
			{Group: "dispatch", Name: "ours / theirs", Unit: "ratio", Median: 0.71, Lowest: 0.7, Highest: 0.72, Turns: 3, AtLeast: 0.8},
		},
	}
}

func TestTheTableHasTheMachineTheFiguresAndWhatBecameOfEachTarget(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report().Table(&out))
	text := out.String()
	require.Contains(t, text, "Test CPU, 2 cores, 1 GB of memory, linux/amd64, load 0.1 before the run; 8 kB are on the disk after 1ms.")
	require.Contains(t, text, "Long form, 2026-01-02 03:04 UTC.")
	cells := func(line string) (out []string) {
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			out = append(out, strings.TrimSpace(cell))
		}
		return out
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	table := lines[len(lines)-5:]
	require.Equal(t, []string{"ours", "/s", "1,234,567", "1,000", "-1,234", "3", "", ""}, cells(table[3]))
	require.Equal(t, []string{"ours / theirs", "ratio", "0.71", "0.7", "0.72", "3", "≥ 0.8", "no"}, cells(table[4]))
	for _, line := range table {
		require.Len(t, []rune(line), len([]rune(table[0])), "the columns line up")
	}
}

func TestTheJSONHasWhatTheTableHas(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report().JSON(&out))
	var back figures.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, report(), back)
}

func TestTheMachineSaysWhatItIsAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	m, err := figures.Look(dir, "Postgres 15")
	require.NoError(t, err)
	require.Positive(t, m.Cores)
	require.Positive(t, m.Sync)
	require.NotEmpty(t, m.Processor)
	require.Contains(t, m.Versions, "Postgres 15")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
