package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is one line of the table: a figure, or a ratio of figures with its target.
type Row struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
	Turns   int     `json:"turns"`
	AtLeast float64 `json:"at_least,omitempty"`
	AtMost  float64 `json:"at_most,omitempty"`
	// LongOnly says that the short form does not judge it.
	LongOnly bool `json:"long_only,omitempty"`
}

func newRow(group string, f Figure, values []float64) Row {
	return Row{
		Group: group, Name: f.Name, Unit: f.Unit, Median: Median(values),
		Lowest: slices.Min(values), Highest: slices.Max(values), Turns: len(values),
	}
}

// Median is the middle of the values, of an even number the mean of the two in the middle.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile is the value below which a share of the others lies, between two of them by their distance; NaN without values.
func Quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	place := share * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (place-float64(below))*(sorted[above]-sorted[below])
}

// Kept says whether the target is reached; a row without one keeps it.
func (r Row) Kept() bool { return r.within(1) }

// within says whether the median is no worse than slack times the target. What cannot be compared is not within.
func (r Row) within(slack float64) bool {
	switch {
	case r.AtLeast > 0:
		return r.Median >= r.AtLeast/slack
	case r.AtMost > 0:
		return r.Median <= r.AtMost*slack
	}
	return true
}

// Report is the whole run.
type Report struct {
	Machine Machine   `json:"machine"`
	Taken   time.Time `json:"taken"`
	Short   bool      `json:"short"`
	Rows    []Row     `json:"rows"`
}

// Broken are the ratios that fall under half their target, or exceed twice the most they may be.
func (r Report) Broken() []Row {
	var broken []Row
	for _, row := range r.Rows {
		if !row.within(2) && (!r.Short || !row.LongOnly) {
			broken = append(broken, row)
		}
	}
	return broken
}

// JSON writes the report for programs.
func (r Report) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Table writes the report for people: Markdown, with columns that line up.
func (r Report) Table(w io.Writer) error {
	lines := [][]string{{"what", "unit", "median", "lowest", "highest", "turns", "target", "kept"}}
	group := ""
	for _, row := range r.Rows {
		if row.Group != group {
			group = row.Group
			lines = append(lines, []string{"**" + group + "**", "", "", "", "", "", "", ""})
		}
		target, kept := r.judged(row)
		lines = append(lines, []string{row.Name, row.Unit, number(row.Median), number(row.Lowest), number(row.Highest),
			strconv.Itoa(row.Turns), target, kept})
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n\n", r.Machine, r.form())
	for i, line := range lines {
		writeLine(&out, line, widths, " ")
		if i == 0 {
			writeLine(&out, make([]string, len(line)), widths, "-")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (r Report) form() string {
	form := "Long form"
	if r.Short {
		form = "Short form: sizes that shake the program out, and are not for quoting"
	}
	return fmt.Sprintf("%s, %s.", form, r.Taken.UTC().Format("2006-01-02 15:04 MST"))
}

func (r Report) judged(row Row) (target, kept string) {
	switch {
	case row.AtLeast > 0:
		target = "≥ " + number(row.AtLeast)
	case row.AtMost > 0:
		target = "≤ " + number(row.AtMost)
	default:
		return "", ""
	}
	switch {
	case r.Short && row.LongOnly:
		return target, "long form only"
	case row.Kept():
		return target, "yes"
	case row.within(2):
		return target, "no"
	}
	return target, "worse than half"
}

func writeLine(out *strings.Builder, cells []string, widths []int, fill string) {
	for i, cell := range cells {
		out.WriteString("|" + fill + cell + strings.Repeat(fill, widths[i]-len([]rune(cell))) + fill)
	}
	out.WriteString("|\n")
}

// number writes three significant digits, and whole numbers above a hundred with their thousands apart.
func number(v float64) string {
	if math.Abs(v) < 100 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
