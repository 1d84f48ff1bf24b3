package files

// SetFoldersInOne returns how to undo it.
func SetFoldersInOne(n int) (undo func()) {
	before := foldersInOne
	foldersInOne = n
	return func() { foldersInOne = before }
}
