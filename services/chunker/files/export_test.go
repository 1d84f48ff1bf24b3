package files

// SetFoldersInOne returns how to undo it.
func SetFoldersInOne(n int) (undo func()) {
	before := foldersInOne
	foldersInOne = n
	return func() { foldersInOne = before }
}

// SetMaxIDBytes returns how to undo it.
func SetMaxIDBytes(n int) (undo func()) {
	before := maxIDBytes
	maxIDBytes = n
	return func() { maxIDBytes = before }
}

// SetMaxNamesBytes returns how to undo it.
func SetMaxNamesBytes(n int) (undo func()) {
	before := maxNamesBytes
	maxNamesBytes = n
	return func() { maxNamesBytes = before }
}
