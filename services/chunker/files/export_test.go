package files

// SetFoldersInOne returns a function that undoes it.
func SetFoldersInOne(n int) (undo func()) {
	before := foldersInOne
	foldersInOne = n
	return func() { foldersInOne = before }
}

// SetMaxIDBytes returns a function that undoes it.
func SetMaxIDBytes(n int) (undo func()) {
	before := maxIDBytes
	maxIDBytes = n
	return func() { maxIDBytes = before }
}

// SetMaxNamesBytes returns a function that undoes it.
func SetMaxNamesBytes(n int) (undo func()) {
	before := maxNamesBytes
	maxNamesBytes = n
	return func() { maxNamesBytes = before }
}
