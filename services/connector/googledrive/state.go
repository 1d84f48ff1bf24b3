package googledrive

import (
	"maps"
	"slices"
)

// cursor is where a sync goes on.
type cursor struct {
	// Roots are the ids of what is synced, by the drive it is in; the user's own is "".
	Roots map[string]string `json:"roots,omitempty"`
	// Cursors are the page tokens of the changes, by drive. Those of a listing were taken before it began, so that
	// what changes meanwhile is not missed.
	Cursors map[string]string `json:"cursors,omitempty"`
	// Listing is set until everything was listed once.
	Listing *listing `json:"listing,omitempty"`
	// Later are what the next sync looks at as if it had changed: it could not be asked for, or listed.
	Later []string `json:"later,omitempty"`
	// Unreported says that something that is stored may be below no root any more though nothing says that it is gone: a shared drive is not listed
	// any more.
	Unreported bool `json:"unsaid,omitempty"`
}

// listing says how far a listing of everything has come. Drives before Drive, in their order, are done.
type listing struct {
	Drive string `json:"drive,omitempty"`
	// Files: the folders of Drive are all stored, and its files are being listed.
	Files bool `json:"files,omitempty"`
	// Page is the page to go on with. Where a drive is listed folder by folder, it is of the files in the folders
	// after After, up to Upto.
	Page  string `json:"page,omitempty"`
	After string `json:"after,omitempty"`
	Upto  string `json:"upto,omitempty"`
}

// maxDrives keeps the cursor within its bound.
const maxDrives = 100

// maxTokenBytes bounds a page token: one for each drive, and one more, are at most 64 KiB.
const maxTokenBytes = 512

// drives are the drives, in their order.
func (c cursor) drives() []string { return slices.Sorted(maps.Keys(c.Roots)) }
