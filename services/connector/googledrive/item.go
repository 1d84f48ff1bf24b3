package googledrive

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
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

// identity is the id; empty where it is not valid.
func (f item) identity() string { return validOr(f.ID) }

func (f item) isFolder() bool   { return f.MimeType == folderType }
func (f item) isShortcut() bool { return f.MimeType == shortcutType }

// isGoogleDocument tells whether it is a document of Google's own: it has no bytes to download, only exports.
func (f item) isGoogleDocument() bool { return strings.HasPrefix(f.MimeType, googleTypes) }

// content names the version of the content. Google's own documents have neither checksum nor revision; their version counts every
// change of metadata too, so the time of modification is used. Name and type are part of it because they decide how the content is
// read.
func (f item) content() string {
	kind := strings.ToLower(path.Ext(f.Name))
	switch {
	case f.isGoogleDocument():
		return source.Short("modified", f.Modified, f.MimeType)
	case f.MD5 != "":
		return source.Short("md5", f.MD5, f.MimeType, kind)
	case f.Revision != "":
		return source.Short("revision", f.Revision, f.MimeType, kind)
	}
	return source.Short("modified", f.Modified, f.MimeType, kind)
}

func (f item) title() string {
	if strings.TrimSpace(f.Name) == "" {
		return "Untitled"
	}
	return f.Name
}

// maxExt is the longest extension that is kept.
const maxExt = 32

// clip cuts the texts of an item to the sizes that are stored. Google takes names of 32,767 characters. Cut texts are copied, so
// that the whole text can be freed.
func (f *item) clip() {
	f.Name, f.Link = strings.ReplaceAll(f.Name, "\x00", ""), strings.ReplaceAll(f.Link, "\x00", "")
	if len(f.Name) > worker.MaxTitleBytes {
		ext := path.Ext(f.Name)
		if len(ext) > maxExt {
			ext = ""
		}
		end := worker.MaxTitleBytes - len(ext)
		for end > 0 && !utf8.RuneStart(f.Name[end]) {
			end--
		}
		f.Name = string(append([]byte(f.Name[:end]), ext...))
	}
	if len(f.Link) > worker.MaxURLBytes {
		f.Link = "" // a part of a link leads nowhere
	}
}
