package cron

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// readHash reads H, H/15, H(0-29) and H(0-29)/10, as Jenkins does (help-spec.jelly of hudson.triggers.TimerTrigger, the help of
// "Build periodically", and hudson.scheduler.BaseParser): H is one value of the field, H/15 each fifteenth value, beginning
// with one of the first fifteen; the parentheses bound both. Days of the month are 1 to 28 then, which every month has. Where
// Jenkins hashes the job's name we hash the connector's id. In Jenkins H/1 means H, which nobody would expect: it is refused.
func (f field) readHash(written string, id int32) (allowed uint64, err error) {
	values, every, stepped := strings.Cut(written[1:], "/")
	low, high := f.min, min(f.max, f.hashed)
	if values != "" {
		inner, opens := strings.CutPrefix(values, "(")
		inner, closes := strings.CutSuffix(inner, ")")
		first, last, ranged := strings.Cut(inner, "-")
		if !opens || !closes || !ranged {
			return 0, fmt.Errorf("%q: behind H comes nothing, a range such as (%d-%d), a step such as /2, or both", written, low, high)
		}
		if low, high, err = f.span(first, last); err != nil {
			return 0, err
		}
	}
	if !stepped {
		return 1 << (low + f.spread(id, high-low+1)), nil
	}
	step, err := strconv.Atoi(every)
	if err != nil || step < 2 || step > high-low+1 {
		return 0, fmt.Errorf("the step %q of H must be a number from 2 to %d; for one value write H without a step, for all *", every, high-low+1)
	}
	for v := low + f.spread(id, step); v <= high; v += step {
		allowed |= 1 << v
	}
	return allowed, nil
}

// spread is a number from 0 to below n: the first eight bytes of SHA-256("<id> <field>"), big-endian, modulo n. Every other
// implementation, and the one in SQL, must give the same number.
func (f field) spread(id int32, n int) int {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", id, f.name))
	_, rest := bits.Div64(0, binary.BigEndian.Uint64(sum[:8]), uint64(n)) //nolint:gosec // n is positive
	return int(rest)                                                      //nolint:gosec // below n
}
