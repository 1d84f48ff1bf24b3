package fakegraph

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// route answers a path below the endpoint.
func (s *Server) route(w http.ResponseWriter, r *http.Request, raw []string) {
	p := make([]string, len(raw))
	for i := range raw {
		p[i], _ = url.PathUnescape(raw[i])
	}
	switch {
	case p[0] == "drives" && len(p) >= 3:
		s.routeDrive(w, r, p)
	case p[0] == "me" && len(p) == 2 && p[1] == "drive":
		s.answerDrive(w, func(d *drive) bool { return d.site == "" })
	case (p[0] == "users" || p[0] == "groups") && len(p) == 3 && p[2] == "drive":
		s.answerDrive(w, func(d *drive) bool { return d.site == p[1] })
	case p[0] == "sites" && p[len(p)-1] == "drive":
		s.answerDrive(w, func(d *drive) bool { return d.site == siteOf(p) })
	case p[0] == "sites" && p[len(p)-1] == "drives":
		var all []any
		for _, d := range s.drives {
			if d.site == siteOf(p) {
				all = append(all, map[string]any{"id": d.id, "name": d.name})
			}
		}
		answer(w, map[string]any{"value": all})
	case p[0] == "shares" && len(p) == 3 && p[2] == "driveItem":
		s.shared(w, strings.TrimPrefix(p[1], "u!"))
	case p[0] == "teams" && len(p) >= 5:
		s.routeChannel(w, r, p)
	default:
		fail(w, http.StatusBadRequest, "invalidRequest")
	}
}

// siteOf is what stands between sites and the end, as "Get a SharePoint site" writes it.
func siteOf(p []string) string {
	return strings.TrimSuffix(strings.Join(p[1:len(p)-1], "/"), ":")
}

func (s *Server) answerDrive(w http.ResponseWriter, is func(*drive) bool) {
	for _, d := range s.drives {
		if is(d) {
			answer(w, map[string]any{"id": d.id, "name": d.name})
			return
		}
	}
	fail(w, http.StatusNotFound, "itemNotFound")
}

func (s *Server) routeDrive(w http.ResponseWriter, r *http.Request, p []string) {
	d := s.drives[p[1]]
	if d == nil {
		fail(w, http.StatusNotFound, "itemNotFound")
		return
	}
	var it *item
	rest := p[3:]
	switch {
	case p[2] == "root":
		it = s.items[d.root]
	case p[2] == "root:":
		it, rest = s.items[d.root], nil
		for _, name := range p[3:] {
			it = s.child(it, name)
		}
	case p[2] == "items" && len(p) >= 4:
		it, rest = s.items[p[3]], p[4:]
	}
	switch {
	case it == nil || it.drive != d.id:
		fail(w, http.StatusNotFound, "itemNotFound")
	case len(rest) == 1 && rest[0] == "delta":
		s.delta(w, r, d.id, it)
	case it.deleted || it.revoked:
		fail(w, http.StatusNotFound, "itemNotFound")
	case it.forbidden:
		fail(w, http.StatusForbidden, "accessDenied")
	case len(rest) == 0:
		answer(w, s.render(it, "", false))
	case len(rest) == 1 && rest[0] == "children":
		s.children(w, r, it)
	default:
		fail(w, http.StatusBadRequest, "invalidRequest")
	}
}

func (s *Server) child(it *item, name string) *item {
	if it == nil {
		return nil
	}
	for _, below := range s.below(it.id) {
		if strings.EqualFold(below.name, name) {
			return below
		}
	}
	return nil
}

func (s *Server) children(w http.ResponseWriter, r *http.Request, it *item) {
	all := slices.DeleteFunc(s.below(it.id), func(below *item) bool { return below.revoked })
	from, _ := strconv.Atoi(r.URL.Query().Get("$skiptoken"))
	top, _ := strconv.Atoi(r.URL.Query().Get("$top"))
	most := s.pageSize(top)
	page := map[string]any{}
	values := []any{}
	for i := min(from, len(all)); i < len(all) && i < from+most; i++ {
		values = append(values, s.render(all[i], "", false))
	}
	if from+most < len(all) {
		page["@odata.nextLink"] = fmt.Sprintf("%s%s?$top=%d&$skiptoken=%d", s.api.URL, r.URL.EscapedPath(), top, from+most)
	}
	page["value"] = values
	answer(w, page)
}

// shared finds an item by the URL that people see ("Access shared items").
func (s *Server) shared(w http.ResponseWriter, encoded string) {
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalidRequest")
		return
	}
	for _, it := range s.items {
		if !it.deleted && !it.revoked && s.webURL(it) == string(data) {
			if it.forbidden {
				fail(w, http.StatusForbidden, "accessDenied")
				return
			}
			answer(w, s.render(it, "", false))
			return
		}
	}
	fail(w, http.StatusNotFound, "itemNotFound")
}

func (s *Server) downloadURL(it *item) string {
	return fmt.Sprintf("%s/download/%s?tempauth=%d", s.files.URL, url.PathEscape(it.id), s.urlEpoch)
}

// serveFile is the host of pre-authenticated URLs. It refuses a request that carries a token it has no business with.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	s.announce(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[strings.TrimPrefix(r.URL.Path, "/download/")]
	f := s.next(r.URL.Path)
	switch {
	case r.Header.Get("Authorization") != "":
		fail(w, http.StatusUnauthorized, "unauthenticated")
	case r.URL.Query().Get("tempauth") != strconv.Itoa(s.urlEpoch):
		fail(w, http.StatusUnauthorized, "unauthenticated")
	case it == nil || it.deleted || it.revoked:
		fail(w, http.StatusNotFound, "itemNotFound")
	case it.forbidden:
		fail(w, http.StatusForbidden, "accessDenied")
	case f == nil:
		s.downloads[it.id]++
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(it.content)
	case f.Reset:
		half(w, it.content, true)
	case f.Cut:
		half(w, it.content, false)
	default:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		fail(w, f.Status, f.Code)
	}
}

// half sends the first half of a body: followed by a reset, or by an end that looks like the right one.
func half(w http.ResponseWriter, content []byte, broken bool) {
	if !broken {
		_, _ = w.Write(content[:len(content)/2])
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content[:len(content)/2])
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	reset(w)
}
