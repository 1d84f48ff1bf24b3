// Package googledrive describes a user's My Drive, a shared drive, or one folder of either to the engine of syncs (Drive API v3).
//
//	config.go    what a connector says
//	sync.go      what a sync is given, and its order
//	state.go     the cursor; memo.go: what is remembered with a document
//	locate.go    which drives and roots that is
//	api.go       requests; item.go: what they answer; errors.go: what a refusal means
//	list.go      everything, page by page, with checkpoints
//	folders.go   the folders of a listing, and what is below those that have come
//	changes.go   what has changed since
//	tree.go      which folder is in which
//	file.go      one file; download.go: its content
//	shortcut.go  what a shortcut stands for
//	later.go     what failed before, and what is not there for a moment
//
// # What is stored
//
// Every item below the root is a document of its own, under the item's id: a file with its text; a folder without
// text; a shortcut with the text of its target, or without where that text is stored anyway. The memo of each says what it is in, so
// what is stored is the tree: a later sync knows from one reading of Postgres what is where, asks the API for nothing but what has
// changed, and the cursor holds only page tokens.
//
// # Folders
//
// The changes of a folder are reported for the folder alone, not for what is in it ("Retrieve changes"). Where a folder has moved
// out, or is gone, everything stored below it is removed. A folder that has appeared, moved or changed is listed again with
// everything below it, because an interrupted sync may have stored any part of it. Unchanged files are not read again.
package googledrive
