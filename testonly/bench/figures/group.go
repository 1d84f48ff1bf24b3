// Package figures takes measurements in turns, compares them within each turn, and prints what came of it as one table.
//
// Whatever else the machine does burdens all members of a turn alike, so a ratio is the median of the ratios of the turns,
// and not the quotient of two medians.
package figures

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

// takeTimeout bounds one measurement, its preparation included.
const takeTimeout = 30 * time.Minute

// Figure names one number, and its unit.
type Figure struct {
	Name string
	Unit string
}

// Measurement is what is measured in each turn of a group.
type Measurement struct {
	// Figures are what Take returns, in this order.
	Figures []Figure
	// Take prepares and measures once.
	Take func(ctx context.Context) ([]float64, error)
}

// Ratio compares figures of the same turn.
type Ratio struct {
	Name string
	// Of is divided by the least of To: names of figures.
	Of string
	To []string
	// AtLeast or AtMost is the target; 0 = this one is none.
	AtLeast, AtMost float64
	// LongOnly is for a ratio that the short form shows and does not judge: one that is too noisy at its size, or whose target is
	// still far away.
	LongOnly bool
}

// Group is what takes turns.
type Group struct {
	Name         string
	Measurements []Measurement
	Ratios       []Ratio
}

// turn is what one turn gave, by the figure's name.
type turn map[string]float64

// Measure takes the turns. Each begins one measurement later than the one before, so that none always has the same place.
func (g Group) Measure(ctx context.Context, turns int, say func(string)) ([]Row, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	taken := make([]turn, turns)
	for i := range taken {
		taken[i] = turn{}
		for j := range g.Measurements {
			m := g.Measurements[(i+j)%len(g.Measurements)]
			say(fmt.Sprintf("%s, turn %d of %d: %s", g.Name, i+1, turns, m.Figures[0].Name))
			values, err := deadline.Get(ctx, "bench.take", takeTimeout, m.Take)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", m.Figures[0].Name, err)
			}
			if len(values) != len(m.Figures) {
				return nil, fmt.Errorf("measure %s: %d figures came, %d have a name", m.Figures[0].Name, len(values), len(m.Figures))
			}
			for k, f := range m.Figures {
				taken[i][f.Name] = values[k]
			}
		}
	}
	return g.rows(taken), nil
}

// check finds a ratio of figures that nobody takes, before hours are spent on them.
func (g Group) check() error {
	var names []string
	for _, m := range g.Measurements {
		for _, f := range m.Figures {
			if slices.Contains(names, f.Name) {
				return fmt.Errorf("group %s has two figures %q", g.Name, f.Name)
			}
			names = append(names, f.Name)
		}
	}
	for _, r := range g.Ratios {
		for _, name := range append([]string{r.Of}, r.To...) {
			if !slices.Contains(names, name) {
				return fmt.Errorf("ratio %q of group %s names %q, which is no figure of the group", r.Name, g.Name, name)
			}
		}
	}
	return nil
}

func (g Group) rows(taken []turn) []Row {
	var rows []Row
	for _, m := range g.Measurements {
		for _, f := range m.Figures {
			values := make([]float64, len(taken))
			for i, t := range taken {
				values[i] = t[f.Name]
			}
			rows = append(rows, newRow(g.Name, f, values))
		}
	}
	for _, r := range g.Ratios {
		values := make([]float64, len(taken))
		for i, t := range taken {
			values[i] = t[r.Of] / t.least(r.To)
		}
		row := newRow(g.Name, Figure{r.Name, "ratio"}, values)
		row.AtLeast, row.AtMost, row.LongOnly = r.AtLeast, r.AtMost, r.LongOnly
		rows = append(rows, row)
	}
	return rows
}

func (t turn) least(names []string) float64 {
	values := make([]float64, len(names))
	for i, name := range names {
		values[i] = t[name]
	}
	return slices.Min(values)
}
