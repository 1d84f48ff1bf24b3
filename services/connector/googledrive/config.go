package googledrive

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/connector/provider"
)

// Bounds and defaults of Config.
const (
	DefaultMaxFileBytes = 10 << 20
	MaxMaxFileBytes     = 32 << 20
	DefaultMaxFiles     = 500_000
	MaxMaxFiles         = 1_000_000
)

// What a connector may sync.
const (
	MyDrive     = "my_drive"
	SharedDrive = "shared_drive"
	Folder      = "folder"
)

// Config is the configuration of a connector of type google_drive.
type Config struct {
	provider.Credentials
	// Source is what is synced: my_drive, shared_drive or folder. Empty is what drive_id or folder_id say, else
	// my_drive.
	Source string `json:"source,omitempty"`
	// DriveID is the shared drive, for shared_drive.
	DriveID string `json:"drive_id,omitempty"`
	// FolderID is the folder, in whichever drive, for folder.
	FolderID string `json:"folder_id,omitempty"`
	// IncludeSharedDrives takes, beside My Drive, every shared drive that the user is a member of.
	IncludeSharedDrives bool `json:"include_shared_drives,omitempty"`
	// MaxFileBytes is the size up to which a file is read; larger ones fail as documents. 0 means
	// DefaultMaxFileBytes. Google's own documents are exported up to 10 MB in any case.
	MaxFileBytes int64 `json:"max_file_bytes,omitempty"`
	// MaxFiles bounds the files and folders that are there at the end of a sync; a drive with more fails it. 0 means DefaultMaxFiles.
	MaxFiles int `json:"max_files,omitempty"`
}

// Validate returns every problem of c, joined, or nil. Each names the field, the value and the fix.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range []struct{ name, value string }{{"drive_id", c.DriveID}, {"folder_id", c.FolderID}} {
		if f.value != "" && (!validID(f.value) || f.value == "root") {
			wrong("%s: %q is not an id; copy what follows /folders/ in the address of the drive or folder", f.name, secret.Typed(f.value, 120))
		}
	}
	switch c.source() {
	case MyDrive:
		if c.DriveID != "" || c.FolderID != "" {
			wrong("source: %q takes the whole My Drive; remove drive_id and folder_id, or set source to shared_drive or folder", c.Source)
		}
	case SharedDrive:
		if c.DriveID == "" {
			wrong("drive_id: it is missing; give the shared drive's id")
		}
		if c.FolderID != "" {
			wrong("folder_id: %q does not go with the source shared_drive; remove it, or set source to folder", c.FolderID)
		}
	case Folder:
		if c.FolderID == "" {
			wrong("folder_id: it is missing; give the folder's id")
		}
		if c.DriveID != "" {
			wrong("drive_id: %q is not needed, since a folder knows its drive; remove it", c.DriveID)
		}
	default:
		wrong("source: %q is not known; use my_drive, shared_drive or folder", secret.Typed(c.Source, 120))
	}
	if c.IncludeSharedDrives && c.source() != MyDrive {
		wrong("include_shared_drives: true goes with the source my_drive only; remove it")
	}
	errs = append(errs, strictjson.UpTo("max_file_bytes", c.MaxFileBytes, MaxMaxFileBytes, DefaultMaxFileBytes),
		strictjson.UpTo("max_files", c.MaxFiles, MaxMaxFiles, DefaultMaxFiles))
	return errors.Join(errs...)
}

func (c Config) source() string {
	switch {
	case c.Source != "":
		return c.Source
	case c.FolderID != "":
		return Folder
	case c.DriveID != "":
		return SharedDrive
	}
	return MyDrive
}

func (c Config) maxFileBytes() int64 { return cmp.Or(c.MaxFileBytes, DefaultMaxFileBytes) }

func (c Config) maxFiles() int { return cmp.Or(c.MaxFiles, DefaultMaxFiles) }

// maxIDBytes is twice what any id of Drive has. A memo has room for some of them.
const maxIDBytes = 90

// validOr is an id that is valid, or none.
func validOr(id string) string {
	if validID(id) {
		return id
	}
	return ""
}

// validID tells whether an id can be put into paths and queries, and be remembered.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDBytes && utf8.ValidString(id) && id != "." && id != ".." &&
		!strings.ContainsFunc(id, func(r rune) bool {
			return r <= ' ' || r == 0x7f || strings.ContainsRune(`/?#%'"\,~<>&`, r)
		})
}
