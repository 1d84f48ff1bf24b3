package chunk

import (
	"errors"
	"fmt"
)

// Bounds and defaults of Options.
const (
	// DefaultMaxTokens is well below the 512 tokens that small embedding models read.
	DefaultMaxTokens = 400
	// MinMaxTokens leaves room for some words beside the overlap.
	MinMaxTokens = 16
	// MaxMaxTokens is the number of tokens that the largest common embedding models read.
	MaxMaxTokens = 8192
	// DefaultOverlapPercent repeats about one or two sentences.
	DefaultOverlapPercent = 15
	// MaxOverlapPercent makes at least half of every chunk new.
	MaxOverlapPercent = 50
	// NoOverlap as Options.OverlapPercent turns the overlap off.
	NoOverlap = -1
)

// Options says how large chunks are. The zero value means the defaults.
type Options struct {
	// MaxTokens is the size limit of one chunk in estimated tokens (see Tokens). 0 means DefaultMaxTokens.
	MaxTokens int
	// OverlapPercent is the largest part of MaxTokens that a chunk repeats from the end of the chunk before it. 0 means
	// DefaultOverlapPercent; NoOverlap (-1) means none.
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

// limits are Options in weights, the unit of Split.
type limits struct {
	max     int // weight of one chunk
	overlap int // weight of the repeated part
	small   int // weight up to which sections are merged
}

// limits replaces zero values by defaults and values out of range by the nearest bound, so that Split ends, and keeps its
// limit, with any options.
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
