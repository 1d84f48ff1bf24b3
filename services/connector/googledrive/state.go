package googledrive

import (
	"fmt"
	"slices"

	"github.com/echomind/sync/services/connector/internal/again"
)

// state is what a connector's state holds.
type state struct {
	// Roots are the ids of what is synced, by the drive it is in; the user's own is "".
	Roots map[string]string `json:"roots,omitempty"`
	// Cursors are the page tokens of the changes, by drive. Those of a listing were taken before it began, so that
	// what changes meanwhile is not missed.
	Cursors map[string]string `json:"cursors,omitempty"`
	// Listing is set until everything was listed once.
	Listing *listing `json:"listing,omitempty"`
	// Failed and Refused are what the last sync has tried again of what could not be read, and of what could not be stored.
	Failed  again.Share `json:"failed,omitzero"`
	Refused again.Share `json:"refused,omitzero"`
	// Later are what the next sync looks at as if it had changed: it could not be asked for, or listed.
	Later []string `json:"later,omitempty"`
	// Away are folders that the last listing of everything did not find; Kept are those that this one does not find, and below which all
	// is kept.
	Away []string `json:"away,omitempty"`
	Kept []string `json:"kept,omitempty"`
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

// maxDrives keeps the state within its bound.
const maxDrives = 100

// maxTokenBytes bounds a page token: one for each drive, and one more, are at most 64 KiB.
const maxTokenBytes = 512

func checkToken(token string) error {
	if len(token) > maxTokenBytes {
		return fmt.Errorf("a page token has %d bytes, more than %d", len(token), maxTokenBytes)
	}
	return nil
}

// drives are the drives, in their order.
func (s state) drives() []string {
	drives := make([]string, 0, len(s.Roots))
	for d := range s.Roots {
		drives = append(drives, d)
	}
	slices.Sort(drives)
	return drives
}

func (s state) roots() []string {
	var roots []string
	for _, d := range s.drives() {
		roots = append(roots, s.Roots[d])
	}
	return roots
}

// clone is for checkpoints: what is sent must not change any more.
func (s state) clone() state {
	c := state{Roots: map[string]string{}, Cursors: map[string]string{}, Failed: s.Failed, Refused: s.Refused, Later: slices.Clone(s.Later)}
	c.Away, c.Kept = slices.Clone(s.Away), slices.Clone(s.Kept)
	for k, v := range s.Roots {
		c.Roots[k] = v
	}
	for k, v := range s.Cursors {
		c.Cursors[k] = v
	}
	if s.Listing != nil {
		l := *s.Listing
		c.Listing = &l
	}
	return c
}
