package googledrive

import (
	"crypto/sha256"
	"encoding/base64"
	"path"
	"slices"
	"strings"
)

// Media types of Google's own ("Google Workspace and Google Drive supported MIME types").
const (
	googleTypes  = "application/vnd.google-apps."
	folderType   = googleTypes + "folder"
	shortcutType = googleTypes + "shortcut"
)

// item is the part of a file resource ("REST Resource: files") that is asked for.
type item struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	MimeType     string   `json:"mimeType"`
	Parents      []string `json:"parents"`
	Trashed      bool     `json:"trashed"`
	DriveID      string   `json:"driveId"`
	Size         int64    `json:"size,string"`
	MD5          string   `json:"md5Checksum"`
	Revision     string   `json:"headRevisionId"`
	Modified     string   `json:"modifiedTime"`
	Link         string   `json:"webViewLink"`
	Capabilities struct {
		CanDownload *bool `json:"canDownload"`
	} `json:"capabilities"`
	// key opens a target that is shared by its link only.
	key      string
	Shortcut struct {
		Target    string `json:"targetId"`
		TargetKey string `json:"targetResourceKey"`
	} `json:"shortcutDetails"`
}

const itemFields = "id,name,mimeType,parents,trashed,driveId,size,md5Checksum,headRevisionId,modifiedTime,webViewLink," +
	"capabilities/canDownload,shortcutDetails(targetId,targetResourceKey)"

func (f item) isFolder() bool   { return f.MimeType == folderType }
func (f item) isShortcut() bool { return f.MimeType == shortcutType }

// isGoogles: there are no bytes to download, only exports.
func (f item) isGoogles() bool { return strings.HasPrefix(f.MimeType, googleTypes) }

// content is what the content is called. Google's own documents have neither checksum nor revision; their version
// counts every change of metadata too, so that the time of modification says more. Name and type decide what
// content is read as.
func (f item) content() string {
	kind := strings.ToLower(path.Ext(f.Name))
	switch {
	case f.isGoogles():
		return short("modified", f.Modified, f.MimeType)
	case f.MD5 != "":
		return short("md5", f.MD5, f.MimeType, kind)
	case f.Revision != "":
		return short("revision", f.Revision, f.MimeType, kind)
	}
	return short("modified", f.Modified, f.MimeType, kind)
}

// meta is what people see.
func (f item) meta() string { return short(f.title(), f.Link) }

func (f item) title() string {
	if strings.TrimSpace(f.Name) == "" {
		return "Untitled"
	}
	return f.Name
}

func short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// lastOf keeps the last of several occurrences of an item, at its place, and drops what cannot be an item.
func lastOf[T any](list []T, id func(T) string) []T {
	last := make(map[string]int, len(list))
	for i, one := range list {
		last[id(one)] = i
	}
	kept := make([]T, 0, len(last))
	for i, one := range list {
		if last[id(one)] == i && validID(id(one)) {
			kept = append(kept, one)
		}
	}
	return slices.Clip(kept)
}
