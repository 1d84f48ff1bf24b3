package campaign

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// looking are looks a second apart at a statement that is called ten times between two of them.
type looking struct {
	reads *reads
	now   time.Time
	seen  read
}

func look(query string) *looking {
	return &looking{reads: newReads(), now: time.Unix(0, 0), seen: read{Query: query}}
}

// calls has each of ten calls a second read so many buffers, for some seconds.
func (l *looking) calls(seconds int, buffers int64, holders ...string) *looking {
	for range seconds {
		l.now = l.now.Add(time.Second)
		l.seen.Calls, l.seen.Rows, l.seen.Blocks = l.seen.Calls+10, l.seen.Rows+10, l.seen.Blocks+10*buffers
		l.reads.count(l.now, holders, map[string]read{"it": l.seen})
	}
	return l
}

// crash has Postgres forget what it has counted.
func (l *looking) crash() *looking {
	l.seen = read{Query: l.seen.Query}
	return l
}

const hot = "-- name: Drain :one SELECT"

func TestAStatementIsJudgedByWhatHoldsWhenItReads(t *testing.T) {
	for name, c := range map[string]struct {
		looks    *looking
		violates bool
	}{
		"few buffers":                         {look(hot).calls(60, 50), false},
		"many buffers":                        {look(hot).calls(60, 70), true},
		"too few calls to tell":               {look(hot).calls(9, 700), false},
		"many behind a transaction":           {look(hot).calls(20, 50).calls(2, 50, "a").calls(60, 700, "a"), false},
		"many right after it":                 {look(hot).calls(20, 50).calls(2, 50, "a").calls(60, 700, "a").calls(2, 700), false},
		"many long after it":                  {look(hot).calls(60, 50, "a").calls(20, 700), true},
		"far too many behind a transaction":   {look(hot).calls(60, 2*heldBound, "a"), true},
		"many before a crash":                 {look(hot).calls(20, 700).crash().calls(1, 50), true},
		"few after a crash":                   {look(hot).calls(20, 50).crash().calls(20, 50), false},
		"a move that another team calls":      {look("SELECT moves.finish($1)").calls(60, 190), false},
		"a move that another team calls much": {look("SELECT moves.finish($1)").calls(60, 210), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.looks.reads.finding()
			require.Equal(t, c.violates, f.Violated > 0, f.Violations)
		})
	}
}

func TestShortTransactionsThatFollowEachOtherHoldNothing(t *testing.T) {
	l := look(hot)
	for i := range 30 {
		l.calls(1, 700, string(rune('a'+i)))
	}
	require.NotZero(t, l.reads.finding().Violated)
}
