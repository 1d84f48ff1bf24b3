package scheduler

import (
	"context"
	"time"

	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// mostBatchLines is how many slots that no run answers a batch may have, each of them a line in the ledger. One connector may have
	// hundreds, after an outage under a calendar.
	mostBatchLines = 2000
	// mostDeciding is how long a batch may take until it is written.
	mostDeciding = claimTimeout / 4
)

// linesOf is how many lines of the ledger plans make.
func linesOf(plans []*plan) (n int) {
	for _, p := range plans {
		n += len(p.Passed)
	}
	return n
}

// some does something with rows of a batch as each does, until that has taken its time or has made as many lines as a batch may have; do
// says how many. It returns what do made of the rows that it came to, in their order, one at least.
// The others are for the next batch.
func some[T any](
	ctx context.Context, c *calendarCache, q *dbgen.Queries, names []calendarNamed, do func(i int, of calendarOf) (made T, lines int),
) (all []T, err error) {
	came, n := make([]bool, len(names)), 0
	all = make([]T, len(names))
	lines, until := 0, time.Now().Add(mostDeciding)
	err = c.each(ctx, q, names, func(i int, of calendarOf) {
		if n > 0 && (lines >= mostBatchLines || time.Now().After(until)) {
			return
		}
		made, more := do(i, of)
		all[i], came[i] = made, true
		n, lines = n+1, lines+more
	})
	kept := all[:0]
	for i, one := range all {
		if came[i] {
			kept = append(kept, one)
		}
	}
	return kept, err
}
