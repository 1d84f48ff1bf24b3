package audit

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

func sortByPromise(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Promise, b.Promise) })
}

// WriteTable prints a line for each finding, and its violations under it.
func WriteTable(out io.Writer, findings []Finding) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	findings = slices.Clone(findings)
	sortByPromise(findings)
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	say("%-8s %-*s %9s %10s  %s\n", "promise", width, "check", "looked at", "violations", "how")
	for _, f := range findings {
		looked := fmt.Sprint(f.Checked)
		if f.Checked == 0 {
			looked = "NOTHING"
		}
		violated := max(f.Violated, len(f.Violations))
		say("%-8d %-*s %9s %10d  %s\n", f.Promise, width, f.Name, looked, violated, f.How)
		for _, v := range f.Violations {
			say("         ! %s\n", v)
		}
		if more := violated - len(f.Violations); more > 0 {
			say("         ! and %d more\n", more)
		}
	}
}
