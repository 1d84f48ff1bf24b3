package crawl

// SetMaxURLBytes returns how to undo it.
func SetMaxURLBytes(n int) (undo func()) {
	before := maxURLBytes
	maxURLBytes = n
	return func() { maxURLBytes = before }
}

// MaxHeldCrawls is how many crawls in a row hold deletions back.
const MaxHeldCrawls = maxHeldCrawls
