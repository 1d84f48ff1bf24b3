package crawl

import (
	"context"
	"slices"
)

// InProcess runs Task in this process, which a page may crash.
type InProcess struct{}

// Do runs Task, whatever its name is.
func (InProcess) Do(_ context.Context, _ string, _ int64, read func(answer string) error, parts ...[]byte) error {
	return read(string(Task.Run(slices.Concat(parts...))))
}

// SetMaxURLBytes returns a function that undoes it.
func SetMaxURLBytes(n int) (undo func()) {
	before := maxURLBytes
	maxURLBytes = n
	return func() { maxURLBytes = before }
}

// MaxHeldCrawls is how many crawls in a row may hold deletions back.
const MaxHeldCrawls = maxHeldCrawls

// SetMaxLeftOut returns a function that undoes it.
func SetMaxLeftOut(n int) (undo func()) {
	before := maxLeftOut
	maxLeftOut = n
	return func() { maxLeftOut = before }
}
