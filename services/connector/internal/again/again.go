// Package again says how many of the documents that have failed a sync tries again.
package again

import "slices"

// Waits is said of what could not be stored, once it is known again where it is.
const Waits = "there was no room for it, or it could not be stored; it is tried again"

// Away is said of what is not there when it is asked for, and that nothing else has said to be gone.
const Away = "it is not there now; it is looked for again by the next sync"

// Goes tells whether a document is deleted that is not there when it is asked for. A service answers so for a moment, too: only the
// changes and a listing of everything say for certain that something is gone. So it stays, marked as away, until a later sync does not
// find it either; marked tells whether it is, thisSync that it was put by the sync that asks.
func Goes(marked, thisSync bool) bool { return marked && !thisSync }

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

// Refused chooses among what could not be stored. Of the unknown nothing is remembered, not even where they are; of the waiting that is.
// What is tried and refused again is unknown then. As long as the unknown are more than the share, some of them are tried; once they are
// not, they are only asked where they are, and become waiting: so they stay few, and nobody has to list everything to find them. Beside
// some that wait, up to twice the share is asked: others may have been refused meanwhile.
func (last Share) Refused(unknown, waiting []string, least int) (now Share, try, place []string) {
	now = last.Of(len(unknown)+len(waiting), least)
	switch room := now.Tried - len(unknown); {
	case room < 0 && len(waiting) > 0 && len(unknown) <= 2*now.Tried:
		return now, nil, unknown
	case room < 0:
		return now, slices.Clone(unknown[:now.Tried]), nil
	case len(waiting) <= room:
		return now, slices.Concat(unknown, waiting), nil
	default:
		return now, slices.Clone(waiting[:room]), unknown
	}
}
