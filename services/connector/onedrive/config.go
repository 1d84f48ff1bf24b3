// Package onedrive describes a OneDrive, a SharePoint library, or one folder of either to the engine of syncs (sdk/source).
//
//	config.go   what a connector says
//	locate.go   which drive and folder that is
//	sync.go     the cursor, and the rounds of a sync: pages, checkpoints, starting again
//	page.go     one page of changes, and one file
//	memo.go     what is remembered with a file
//	tree.go     which folder is in which
//	below.go    what lies below a folder that has changed its place
//	gone.go     what lay below a folder that is gone
//	look.go     what failed before
//
// # What is remembered where
//
// The cursor holds the link to go on from. A file's memo holds the names of its content and the folders above it: from the
// memos of what is stored the tree of folders is built again at every sync, so that no list of folders has to fit anywhere.
//
// # Folders
//
// A folder that was renamed or moved is reported alone ("driveItem: delta", Remarks). What lies below it keeps its
// content and gets another URL: the folder is listed, and its files are given again. A folder that was deleted, or
// moved out of the connector's folder, takes with it what is still below it once the whole round was read: what
// moved out of it before may be reported later in the same round.
package onedrive

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/connector/graph"
)

// Bounds and defaults of Config.
const (
	DefaultMaxFileBytes = 8 << 20
	MaxMaxFileBytes     = 32 << 20
	DefaultMaxFiles     = 500_000
	MaxMaxFiles         = 1_000_000
	maxNameBytes        = 1024
)

// Config is the configuration of a connector of type onedrive. Of Drive, Site, Group and User at most one is set;
// without any, it is the drive of the user who gave consent.
type Config struct {
	graph.Credentials
	// Drive is a drive's id.
	Drive string `json:"drive_id,omitempty"`
	// Site is a SharePoint site, as contoso.sharepoint.com:/sites/Marketing, or its id.
	Site string `json:"site,omitempty"`
	// Library names a document library of the site. Empty is the site's default one.
	Library string `json:"library,omitempty"`
	// Group is the id of a group or team whose drive it is.
	Group string `json:"group_id,omitempty"`
	// User is the id or principal name of a user whose drive it is.
	User string `json:"user,omitempty"`
	// Folder is the path of a folder in the drive, as Projects/2026. Once found it is followed when it is renamed.
	Folder string `json:"folder,omitempty"`
	// Item is the id of a folder in the drive, instead of Folder.
	Item string `json:"item_id,omitempty"`
	// MaxFileBytes is the size up to which a file is read; larger ones fail as documents. 0 means
	// DefaultMaxFileBytes.
	MaxFileBytes int64 `json:"max_file_bytes,omitempty"`
	// MaxFiles bounds the files that are there at the end of a sync; a drive with more fails it. 0 means DefaultMaxFiles.
	MaxFiles int `json:"max_files,omitempty"`
}

// Validate returns every problem of c, joined, or nil. Each names the field, the value and the fix.
func (c Config) Validate() error {
	var errs []error
	var set []string // of the fields that name a drive
	for _, f := range []struct {
		name, value       string
		namesDrive, hasID bool
	}{
		{"drive_id", c.Drive, true, true}, {"site", c.Site, true, false}, {"library", c.Library, false, false}, {"group_id", c.Group, true, true},
		{"user", c.User, true, true}, {"folder", c.Folder, false, false}, {"item_id", c.Item, false, true},
	} {
		switch {
		case len(f.value) > maxNameBytes:
			errs = append(errs, fmt.Errorf("%s: %d bytes are too long; use at most %d", f.name, len(f.value), maxNameBytes))
		case !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' }):
			errs = append(errs, fmt.Errorf("%s: %q holds control characters or is not UTF-8; write plain text", f.name, f.value))
		case strings.TrimSpace(f.value) != f.value:
			errs = append(errs, fmt.Errorf("%s: %q begins or ends with a space; remove it", f.name, f.value))
		}
		if f.hasID && (strings.ContainsAny(f.value, "/?#%") || f.value == "." || f.value == "..") {
			errs = append(errs, fmt.Errorf("%s: %q is not an identifier; copy it without its address", f.name, f.value))
		}
		if f.namesDrive && f.value != "" {
			set = append(set, f.name)
		}
	}
	if len(set) > 1 {
		errs = append(errs, fmt.Errorf("%s: they exclude each other; keep one", strings.Join(set, ", ")))
	}
	if c.Library != "" && c.Site == "" {
		errs = append(errs, fmt.Errorf("library: %q needs the site it belongs to; set site", c.Library))
	}
	if c.Folder != "" && c.Item != "" {
		errs = append(errs, fmt.Errorf("folder, item_id: they exclude each other; keep one"))
	}
	for _, segment := range strings.Split(c.Folder, "/") {
		if segment == "." || segment == ".." || strings.ContainsAny(segment, `:\`) {
			errs = append(errs, fmt.Errorf(`folder: %q is not a path in the drive; write it as Projects/2026, without "..", ":" and "\"`, c.Folder))
			break
		}
	}
	if strings.ContainsAny(c.Site, "?#%") || strings.Contains(c.Site, "..") {
		errs = append(errs, fmt.Errorf("site: %q is not a site; write it as contoso.sharepoint.com:/sites/Marketing", c.Site))
	}
	errs = append(errs, strictjson.UpTo("max_file_bytes", c.MaxFileBytes, MaxMaxFileBytes, DefaultMaxFileBytes),
		strictjson.UpTo("max_files", c.MaxFiles, MaxMaxFiles, DefaultMaxFiles))
	return errors.Join(errs...)
}
