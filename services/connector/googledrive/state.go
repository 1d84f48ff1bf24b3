package googledrive

import (
	"maps"
	"slices"
)

// cursor is where a sync goes on.
type cursor struct {
	// Roots are the ids of the synced folders, by drive; the user's own drive is "".
	Roots map[string]string `json:"roots,omitempty"`
	// Cursors are the page tokens of the changes, by drive. A listing takes them before it begins, so that no change during the
	// listing is missed.
	Cursors map[string]string `json:"cursors,omitempty"`
	// Listing is set until everything was listed once.
	Listing *listing `json:"listing,omitempty"`
	// Later are items that the next sync treats as changed, because they could not be asked for, or listed.
	Later []string `json:"later,omitempty"`
	// Unreported says that a stored item may be below no root any more without a change that reports it: a shared drive is not
	// listed any more.
	Unreported bool `json:"unsaid,omitempty"`
}

// listing is the progress of a listing of everything. Drives before Drive, in their order, are done.
type listing struct {
	Drive string `json:"drive,omitempty"`
	// Files says that the folders of Drive are stored, and its files are being listed.
	Files bool `json:"files,omitempty"`
	// Page is the next page. Where a drive is listed folder by folder, it is a page of the files in the folders after After, up to
	// Upto.
	Page  string `json:"page,omitempty"`
	After string `json:"after,omitempty"`
	Upto  string `json:"upto,omitempty"`
}

// maxDrives keeps the cursor within its size limit.
const maxDrives = 100

// maxTokenBytes bounds a page token: the tokens of all drives, and one more, fit in 64 KiB.
const maxTokenBytes = 512

// drives are the drives, in their order.
func (c cursor) drives() []string { return slices.Sorted(maps.Keys(c.Roots)) }
