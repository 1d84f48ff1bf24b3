package crawl

// SetMaxURLBytes returns a function that undoes it.
func SetMaxURLBytes(n int) (undo func()) {
	before := maxURLBytes
	maxURLBytes = n
	return func() { maxURLBytes = before }
}

// MaxHeldCrawls is how many crawls in a row may hold deletions back.
const MaxHeldCrawls = maxHeldCrawls
