package crawl

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
