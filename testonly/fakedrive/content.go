package fakedrive

import (
	"bytes"
	"net/http"
	"strings"
	"time"
)

// found is an item that a request names, if the account can see it.
func (s *Server) found(w http.ResponseWriter, r *http.Request) *file {
	id := r.PathValue("id")
	if id == "root" {
		id = Root
	}
	f := s.files[id]
	// "supportsAllDrives: whether the requesting application supports both My Drives and shared drives"; an export has
	// no such parameter.
	hidden := r.URL.Query().Get("supportsAllDrives") != "true" && !strings.HasSuffix(r.URL.Path, "/export")
	if !s.visible(f) || s.driveOf(f) != "" && hidden {
		notFound(w, id)
		return nil
	}
	return f
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	f := s.found(w, r)
	if f == nil {
		return
	}
	if r.URL.Query().Get("alt") != "media" {
		answer(w, r, s.resource(f), "kind,id,name,mimeType")
		return
	}
	switch {
	case strings.HasPrefix(f.Mime, "application/vnd.google-apps."):
		fail(w, http.StatusForbidden, "fileNotDownloadable",
			"Only files with binary content can be downloaded. Use Export with Docs Editors files.", "alt")
	case !f.CanDownload:
		fail(w, http.StatusForbidden, "cannotDownloadFile", "This file cannot be downloaded by the user.", "")
	default:
		s.reads[f.ID]++
		w.Header().Set("Content-Type", f.Mime)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.Content))
	}
}

// formats are some of "Export MIME types for Google Workspace documents".
var formats = map[string][]string{
	DocumentType: {"text/markdown", "text/html", "text/plain", "application/pdf"},
	SheetType:    {"text/csv", "text/tab-separated-values", "application/pdf"},
	SlidesType:   {"text/plain", "application/pdf"},
	DrawingType:  {"image/png", "image/svg+xml", "application/pdf"},
}

// maxExport is "limited to 10 MB" ("Method: files.export").
const maxExport = 10 << 20

func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	f := s.found(w, r)
	if f == nil {
		return
	}
	wanted, can := r.URL.Query().Get("mimeType"), false
	for _, format := range formats[f.Mime] {
		can = can || format == wanted
	}
	switch {
	case wanted == "":
		fail(w, http.StatusBadRequest, "required", "Required parameter: mimeType", "mimeType")
	case formats[f.Mime] == nil:
		fail(w, http.StatusForbidden, "fileNotExportable", "Export only supports Docs Editors files.", "fileId")
	case !can:
		fail(w, http.StatusBadRequest, "badRequest", "The requested conversion is not supported.", "convertTo")
	case !f.CanDownload:
		fail(w, http.StatusForbidden, "cannotExportFile", "This file cannot be exported by the user.", "")
	case len(f.Content) > maxExport:
		fail(w, http.StatusForbidden, "exportSizeLimitExceeded", "This file is too large to be exported.", "")
	default:
		s.reads[f.ID]++
		w.Header().Set("Content-Type", wanted)
		_, _ = w.Write(f.Content)
	}
}
