package chunk

import (
	"errors"
	"fmt"
)

// Bounds and defaults of Options.
const (
	// DefaultMaxTokens keeps a chunk well inside the 512 tokens that small embedding models read.
	DefaultMaxTokens = 400
	// MinMaxTokens leaves room for some words besides the overlap.
	MinMaxTokens = 16
	// MaxMaxTokens is what the largest common embedding models read.
	MaxMaxTokens = 8192
	// DefaultOverlapPercent repeats about one or two sentences.
	DefaultOverlapPercent = 15
	// MaxOverlapPercent keeps every chunk at least half new.
	MaxOverlapPercent = 50
	// NoOverlap as Options.OverlapPercent turns the overlap off.
	NoOverlap = -1
)

// Options says how large chunks are. The zero value means the defaults.
type Options struct {
	// MaxTokens is the size limit of one chunk in estimated tokens (see Tokens). 0 means DefaultMaxTokens.
	MaxTokens int
	// OverlapPercent is how much of MaxTokens a chunk repeats from the end of the one before it, at most.
	// 0 means DefaultOverlapPercent; NoOverlap (-1) means none.
	OverlapPercent int
}

// Validate returns every problem of o, joined, or nil.
func (o Options) Validate() error {
	var errs []error
	if o.MaxTokens != 0 && (o.MaxTokens < MinMaxTokens || o.MaxTokens > MaxMaxTokens) {
		errs = append(errs, fmt.Errorf("MaxTokens: %d is out of range; use %d to %d, or 0 for %d",
			o.MaxTokens, MinMaxTokens, MaxMaxTokens, DefaultMaxTokens))
	}
	if o.OverlapPercent < NoOverlap || o.OverlapPercent > MaxOverlapPercent {
		errs = append(errs, fmt.Errorf("OverlapPercent: %d is out of range; use 1 to %d, 0 for %d, or %d for none",
			o.OverlapPercent, MaxOverlapPercent, DefaultOverlapPercent, NoOverlap))
	}
	return errors.Join(errs...)
}

// limits are Options in the unit that Split counts in.
type limits struct {
	max     int // weight of one chunk
	overlap int // weight of what is repeated
	small   int // weight up to which sections are merged
}

// limits takes defaults for zero values and the nearest bound for values out of range, so that Split
// terminates within its limit whatever it is given.
func (o Options) limits() limits {
	tokens := o.MaxTokens
	if tokens == 0 {
		tokens = DefaultMaxTokens
	}
	tokens = min(max(tokens, MinMaxTokens), MaxMaxTokens)
	percent := o.OverlapPercent
	if percent == 0 {
		percent = DefaultOverlapPercent
	}
	percent = min(max(percent, 0), MaxOverlapPercent)
	weight := tokens * weightPerToken
	return limits{max: weight, overlap: weight * percent / 100, small: weight / 4}
}
