package campaign

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/fault"
)

// Write prints what was injected and the table of the promises, and says whether all of them were kept. A check
// that looked at nothing shows nothing.
func (r Report) Write(out io.Writer) bool {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	slices.SortFunc(r.Injected, func(a, b fault.Injected) int { return int(a.At - b.At) })
	say("%d faults:\n", len(r.Injected))
	ok := true
	for _, i := range r.Injected {
		said := ""
		if i.Err != nil {
			said = "  " + strings.ReplaceAll(i.Err.Error(), "\n", " ")
			ok = ok && errors.Is(i.Err, fault.ErrNobody)
		}
		say("  %6s  %-60s %6s%s\n", i.At.Round(100*time.Millisecond), i.Name, i.Took.Round(100*time.Millisecond), said)
	}
	say("runs by verdict:\n")
	for verdict, n := range r.Syncs {
		say("  %6d  %s\n", n, verdict)
	}
	for _, end := range r.Ends {
		say("a program ended that nobody had ended: %s\n", end)
		ok = false
	}
	say("\n")
	audit.WriteTable(out, r.Findings)
	for _, f := range r.Findings {
		ok = ok && len(f.Violations) == 0 && (f.Checked > 0 || !r.Whole)
	}
	return ok && len(r.Findings) > 0
}
