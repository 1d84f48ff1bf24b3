package fakedrive

import (
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// token is opaque to clients: what it is of, the epoch it was made in, and where to go on.
func (s *Server) token(of string, at int) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(of))
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%08x.%d.%d", h.Sum32(), s.epoch, at))
}

func (s *Server) at(token, of string) (at int, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, false
	}
	parts := strings.Split(string(text), ".")
	if len(parts) != 3 {
		return 0, false
	}
	at, err = strconv.Atoi(parts[2])
	return at, err == nil && s.token(of, at) == token
}

// ExpireTokens makes the service refuse all page tokens that it has given.
func (s *Server) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
}

func refuseToken(w http.ResponseWriter) {
	fail(w, http.StatusBadRequest, "invalid", "Invalid Value", "pageToken")
}

func (s *Server) pageSize(w http.ResponseWriter, query url.Values) (size int, ok bool) {
	size = 100
	if text := query.Get("pageSize"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			fail(w, http.StatusBadRequest, "invalidParameter", "Invalid value '"+text+"'. Values must be within the range: [1, 1000]", "pageSize")
			return 0, false
		}
		size = n
	}
	if s.MaxPage > 0 {
		size = min(size, s.MaxPage)
	}
	return size, true
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	size, ok := s.pageSize(w, query)
	if !ok {
		return
	}
	drive := query.Get("driveId")
	switch {
	case (query.Get("corpora") == "drive") != (drive != ""):
		fail(w, http.StatusBadRequest, "invalid", "driveId and corpora=drive need each other", "driveId")
		return
	case drive != "" && (query.Get("includeItemsFromAllDrives") != "true" || query.Get("supportsAllDrives") != "true"):
		fail(w, http.StatusForbidden, "teamDrivesParentLimit", "includeItemsFromAllDrives and supportsAllDrives must be true", "driveId")
		return
	case drive != "" && (s.drives[drive] == nil || !s.drives[drive].member):
		fail(w, http.StatusNotFound, "notFound", "Shared drive not found: "+drive, "driveId")
		return
	}
	of := "list" + drive + "\x00" + query.Get("q")
	from := 0
	if token := query.Get("pageToken"); token != "" {
		if from, ok = s.at(token, of); !ok {
			refuseToken(w)
			return
		}
	}
	matches, err := s.parse(query.Get("q"))
	if errors.Is(err, errNoParent) {
		fail(w, http.StatusNotFound, "notFound", "File not found: .", "fileId")
		return
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid", "Invalid Value", "q")
		return
	}
	var found []any
	next, last := 0, (*file)(nil)
	for i, id := range s.order {
		f := s.files[id]
		if f == nil || f.ID == Root || f.ID == drive || !s.visible(f) || s.driveOf(f) != drive || !matches(f) {
			continue
		}
		if i < from {
			last = f
			continue
		}
		if len(found) == size {
			next = i
			break
		}
		if len(found) == 0 && last != nil && s.RepeatItems {
			found = append(found, s.resource(last))
			s.listed[last.ID]++
			if size == 1 {
				next = i
				s.RepeatItems = false // a page of one item would repeat it for ever
				break
			}
		}
		s.listed[f.ID]++
		found = append(found, s.resource(f))
	}
	resource := map[string]any{"kind": "drive#fileList", "incompleteSearch": false, "files": found}
	if found == nil {
		resource["files"] = []any{}
	}
	if next > 0 {
		resource["nextPageToken"] = s.token(of, next)
	}
	answer(w, r, resource, "kind,nextPageToken,incompleteSearch,files(kind,id,name,mimeType)")
}

func (s *Server) listDrives(w http.ResponseWriter, r *http.Request) {
	size, ok := s.pageSize(w, r.URL.Query())
	if !ok {
		return
	}
	from := 0
	if token := r.URL.Query().Get("pageToken"); token != "" {
		if from, ok = s.at(token, "drives"); !ok {
			refuseToken(w)
			return
		}
	}
	found, next := []any{}, 0
	for i, id := range s.order {
		d := s.drives[id]
		if d == nil || !d.member || i < from {
			continue
		}
		if len(found) == size {
			next = i
			break
		}
		found = append(found, map[string]any{"kind": "drive#drive", "id": id, "name": d.name})
	}
	resource := map[string]any{"kind": "drive#driveList", "drives": found}
	if next > 0 {
		resource["nextPageToken"] = s.token("drives", next)
	}
	answer(w, r, resource, "kind,nextPageToken,drives(kind,id,name)")
}

var (
	errQuery    = errors.New("not understood")
	errNoParent = errors.New("a parent is not found")
)

// parse reads the part of "Search query terms and operators" that lists folders: and, or, parentheses, and the terms
// trashed, mimeType and parents.
func (s *Server) parse(q string) (func(*file) bool, error) {
	if q = strings.TrimSpace(q); q == "" {
		return func(*file) bool { return true }, nil
	}
	for _, operator := range []string{" or ", " and "} {
		parts := cutAt(q, operator)
		if len(parts) == 1 {
			continue
		}
		var terms []func(*file) bool
		for _, part := range parts {
			term, err := s.parse(part)
			if err != nil {
				return nil, err
			}
			terms = append(terms, term)
		}
		return func(f *file) bool {
			some := slices.ContainsFunc(terms, func(t func(*file) bool) bool { return t(f) == (operator == " or ") })
			return some == (operator == " or ")
		}, nil
	}
	if strings.HasPrefix(q, "(") && strings.HasSuffix(q, ")") {
		return s.parse(q[1 : len(q)-1])
	}
	return s.term(q)
}

func (s *Server) term(q string) (func(*file) bool, error) {
	quoted := func(text string) (string, bool) {
		text = strings.TrimSpace(text)
		if len(text) < 2 || text[0] != '\'' || text[len(text)-1] != '\'' || strings.Contains(text[1:len(text)-1], "'") {
			return "", false
		}
		return text[1 : len(text)-1], true
	}
	if id, is := strings.CutSuffix(q, " in parents"); is {
		id, ok := quoted(id)
		if id == "root" {
			id = Root
		}
		switch {
		case !ok:
			return nil, errQuery
		case !s.visible(s.files[id]):
			return nil, errNoParent
		}
		return func(f *file) bool { return slices.Contains(f.Parents, id) }, nil
	}
	name, value, ok := strings.Cut(q, " = ")
	not := false
	if !ok {
		name, value, ok = strings.Cut(q, " != ")
		not = true
	}
	switch {
	case !ok:
		return nil, errQuery
	case name == "trashed" && (value == "true" || value == "false"):
		return func(f *file) bool { return (s.trashed(f) == (value == "true")) != not }, nil
	case name == "mimeType":
		if mime, ok := quoted(value); ok {
			return func(f *file) bool { return (f.Mime == mime) != not }, nil
		}
	}
	return nil, errQuery
}

// cutAt cuts at an operator outside of parentheses and quotes.
func cutAt(q, operator string) (parts []string) {
	depth, quoted, from := 0, false, 0
	for i := 0; i < len(q); i++ {
		switch {
		case q[i] == '\'':
			quoted = !quoted
		case quoted:
		case q[i] == '(':
			depth++
		case q[i] == ')':
			depth--
		case depth == 0 && strings.HasPrefix(q[i:], operator):
			parts = append(parts, q[from:i])
			from = i + len(operator)
		}
	}
	return append(parts, q[from:])
}
