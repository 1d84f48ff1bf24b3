// Package again says how many of the documents that have failed a sync tries again.
package again

const (
	// Most bounds how many documents that have failed a sync tries again.
	Most = 20_000
	// growth is how many times as many are tried as at the sync before, where that has helped.
	growth = 4
)

// Share is what a sync has tried again, as the next one remembers it. Whether what was tried again was stored is known to the next sync
// only: what a sync sends is stored, or refused, after it.
type Share struct {
	// Tried is how many documents were tried again, Left how many there were then.
	Tried int `json:"tried,omitempty"`
	Left  int `json:"left,omitempty"`
}

// Of is the share of a sync that finds left documents to be tried again. A sync tries least of them, so that files that cannot be
// read, and a quota that is full, cost no request for each document at every sync. Where at least half of what the last one has tried
// have gone from what is left, there are growth times as many of them.
func (last Share) Of(left, least int) Share {
	most := least
	if last.Tried >= least && 2*(last.Left-left) >= last.Tried {
		most = min(growth*last.Tried, Most)
	}
	return Share{Tried: min(most, left), Left: left}
}
