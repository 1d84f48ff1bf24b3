// Package fakedrive is Drive API v3 in process, as far as a reader needs it: files, folders, shortcuts, shared drives,
// access, trash, revisions, the feed of changes, listings by query, downloads with ranges, exports, and what goes wrong.
//
// It is written from the provider's documentation: "REST Resource: files", "Method: files.list", "Method: files.get",
// "Method: files.export", "Search query terms and operators", "REST Resource: changes", "Method: changes.list",
// "Retrieve changes", "Method: drives.list", "Resolve errors", "Export MIME types for Google Workspace documents",
// "Partial responses". It shows the drive as one account sees it.
package fakedrive

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Media types of Google's own.
const (
	FolderType   = "application/vnd.google-apps.folder"
	ShortcutType = "application/vnd.google-apps.shortcut"
	DocumentType = "application/vnd.google-apps.document"
	SheetType    = "application/vnd.google-apps.spreadsheet"
	SlidesType   = "application/vnd.google-apps.presentation"
	DrawingType  = "application/vnd.google-apps.drawing"
)

// Root is the id of My Drive's root folder; "root" is another name of it.
const Root = "0ARootOfMyDrive"

// Server is a drive. Its fields may be set before the first request.
type Server struct {
	*httptest.Server
	// Token is the access token that requests must carry; none if empty.
	Token string
	// MaxPage bounds pages, whatever is asked for; 0 means as documented (1,000).
	MaxPage int
	// ReportBelow puts what is below a folder into the feed when the folder is trashed, deleted or moved. The
	// documentation promises it for none of these, so that by default the feed names the folder alone.
	ReportBelow bool
	// RepeatItems begins each page of a listing with the last item of the page before.
	RepeatItems bool

	mu     sync.Mutex
	files  map[string]*file
	order  []string            // ids, in order of creation: that of listings
	drives map[string]*drive   // shared ones
	feeds  map[string]*changes // by drive; "" is the user's
	epoch  int                 // of page tokens
	next   int
	clock  time.Time
	faults []*Fault
	calls  map[string]int // by kind
	listed map[string]int // by item
	reads  map[string]int // contents sent, by item
	before func(kind, id string)
}

type drive struct {
	name   string
	member bool
}

// New starts an empty drive.
func New() *Server {
	s := &Server{
		files: map[string]*file{}, drives: map[string]*drive{}, feeds: map[string]*changes{"": {}},
		clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		calls: map[string]int{}, listed: map[string]int{}, reads: map[string]int{},
	}
	s.files[Root] = &file{ID: Root, Name: "My Drive", Mime: FolderType, Access: true, CanDownload: true}
	s.order = append(s.order, Root)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /drive/v3/files", s.route("list", s.list))
	mux.HandleFunc("GET /drive/v3/files/{id}", s.route("get", s.get))
	mux.HandleFunc("GET /drive/v3/files/{id}/export", s.route("export", s.export))
	mux.HandleFunc("GET /drive/v3/changes", s.route("changes", s.changes))
	mux.HandleFunc("GET /drive/v3/changes/startPageToken", s.route("start", s.startToken))
	mux.HandleFunc("GET /drive/v3/drives", s.route("drives", s.listDrives))
	s.Server = httptest.NewServer(mux)
	return s
}

// route is what every request goes through. kind names it to faults and counters; a download is "media".
func (s *Server) route(kind string, handle func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind := kind
		if r.URL.Query().Get("alt") == "media" {
			kind = "media"
		}
		s.mu.Lock()
		hook := s.before
		s.mu.Unlock()
		if hook != nil {
			hook(kind, r.PathValue("id"))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[kind]++
		if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
			fail(w, http.StatusUnauthorized, "authError", "Invalid Credentials", "Authorization")
			return
		}
		fault := s.nextFault(kind, r.PathValue("id"))
		if fault != nil {
			w = fault.on(w)
			if w == nil {
				return
			}
		}
		handle(w, r)
		if f, is := w.(*faulty); is {
			f.end()
		}
	}
}

// Before is called ahead of every request, so that a test can change the drive in between. It may not block.
func (s *Server) Before(hook func(kind, id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = hook
}

// Calls returns how many requests of some kinds were made, of all if none is named, since ResetCalls.
func (s *Server) Calls(kinds ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for kind, calls := range s.calls {
		for _, k := range kinds {
			if k == kind {
				n += calls
			}
		}
		if len(kinds) == 0 {
			n += calls
		}
	}
	return n
}

// Listed returns how often an item was in a page of a listing, Reads how often its content was sent.
func (s *Server) Listed(id string) int { s.mu.Lock(); defer s.mu.Unlock(); return s.listed[id] }

// Reads returns how often an item's content was sent; of all items if id is empty.
func (s *Server) Reads(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != "" {
		return s.reads[id]
	}
	n := 0
	for _, reads := range s.reads {
		n += reads
	}
	return n
}

// ResetCalls begins to count anew.
func (s *Server) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.calls)
	clear(s.listed)
	clear(s.reads)
}

// fail answers as "Resolve errors" shows it.
func fail(w http.ResponseWriter, status int, reason, message, location string) {
	one := map[string]any{"domain": "global", "reason": reason, "message": message}
	if location != "" {
		one["location"], one["locationType"] = location, "parameter"
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": map[string]any{"code": status, "message": message, "errors": []any{one}},
	})
}

func notFound(w http.ResponseWriter, id string) {
	fail(w, http.StatusNotFound, "notFound", fmt.Sprintf("File not found: %s.", id), "fileId")
}

// answer sends the fields that are asked for, or those that are sent by default.
func answer(w http.ResponseWriter, r *http.Request, resource map[string]any, byDefault string) {
	fields := r.URL.Query().Get("fields")
	if fields == "" {
		fields = byDefault
	}
	picked, err := pick(resource, fields)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalidParameter", "Invalid field selection "+err.Error(), "fields")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(picked)
}

// pick selects fields, as "id,name,files(id,capabilities/canDownload)" or "*" ("Partial responses").
func pick(value any, fields string) (any, error) {
	if fields == "*" || fields == "" {
		return value, nil
	}
	switch v := value.(type) {
	case []any:
		picked := make([]any, len(v))
		for i := range v {
			one, err := pick(v[i], fields)
			if err != nil {
				return nil, err
			}
			picked[i] = one
		}
		return picked, nil
	case map[string]any:
		picked := map[string]any{}
		for _, field := range split(fields) {
			name, rest := field, "*"
			if i := strings.IndexAny(field, "(/"); i >= 0 {
				name, rest = field[:i], field[i+1:]
				if field[i] == '(' {
					rest = strings.TrimSuffix(rest, ")")
				}
			}
			if name == "" || strings.ContainsAny(name, " )") {
				return nil, fmt.Errorf("%s", field)
			}
			if inner, has := v[name]; has {
				one, err := pick(inner, rest)
				if err != nil {
					return nil, err
				}
				picked[name] = one
			}
		}
		return picked, nil
	}
	return value, nil
}

// split cuts at the commas outside of parentheses.
func split(fields string) (parts []string) {
	depth, from := 0, 0
	for i, c := range fields {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts, from = append(parts, fields[from:i]), i+1
		}
	}
	return append(parts, fields[from:])
}
