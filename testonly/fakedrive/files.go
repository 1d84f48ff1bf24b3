package fakedrive

import (
	"crypto/md5" //nolint:gosec // it is what the API lists
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// file is an item.
type file struct {
	ID, Name, Mime string
	Parents        []string
	Content        []byte
	Target         string
	Trashed        bool // explicitly; what is below it is trashed too
	Access         bool // the account can see it
	CanDownload    bool
	Version        int
	Revision       int
	Modified       time.Time
}

// Folder makes a folder and returns its id.
func (s *Server) Folder(parent, name string) string { return s.add(parent, name, FolderType, nil) }

// File makes a file with bytes.
func (s *Server) File(parent, name, mime, content string) string {
	return s.add(parent, name, mime, []byte(content))
}

// Doc makes a document of Google's own; content is what it exports.
func (s *Server) Doc(parent, name, mime, content string) string {
	return s.add(parent, name, mime, []byte(content))
}

// Shortcut makes a shortcut.
func (s *Server) Shortcut(parent, name, target string) string {
	id := s.add(parent, name, ShortcutType, nil)
	s.change(id, func(f *file) { f.Target = target })
	return id
}

// Drive makes a shared drive, whose root folder has its id.
func (s *Server) Drive(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := fmt.Sprintf("0ADrive%04d", s.next)
	s.drives[id] = &drive{name: name, member: true}
	s.feeds[id] = &changes{}
	s.files[id] = &file{ID: id, Name: "Drive", Mime: FolderType, Access: true, CanDownload: true}
	s.order = append(s.order, id)
	return id
}

// Leave ends, or begins again, the account's membership of a shared drive.
func (s *Server) Leave(id string, member bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drives[id].member = member
}

func (s *Server) add(parent, name, mime string, content []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := fmt.Sprintf("1File%06d_%s", s.next, strings.Repeat("x", 20))
	f := &file{ID: id, Name: name, Mime: mime, Content: content, Access: true, CanDownload: true}
	if parent != "" {
		f.Parents = []string{parent}
	}
	s.files[id] = f
	s.order = append(s.order, id)
	s.written(f)
	s.changed(f)
	return id
}

func (s *Server) written(f *file) {
	f.Revision++
	s.clock = s.clock.Add(time.Second)
	f.Modified = s.clock
}

// change changes an item, and says so in the feed.
func (s *Server) change(id string, set func(*file)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, is := s.files[id]
	if !is {
		return
	}
	before := s.driveOf(f)
	set(f)
	s.changed(f)
	if after := s.driveOf(f); after != before {
		s.feeds[before].add(f.ID)
	}
}

// changed puts an item into the feed of its drive.
func (s *Server) changed(f *file) {
	f.Version++
	if feed := s.feeds[s.driveOf(f)]; feed != nil {
		feed.add(f.ID)
	}
}

func (s *Server) changeBelow(id string, set func(*file)) {
	s.change(id, set)
	if s.ReportBelow {
		for _, below := range s.Below(id) {
			s.change(below, func(*file) {})
		}
	}
}

// Write gives a file another content.
func (s *Server) Write(id, content string) {
	s.change(id, func(f *file) {
		f.Content = []byte(content)
		s.written(f)
	})
}

// Rename changes a name; the content and its checksum stay.
func (s *Server) Rename(id, name string) { s.change(id, func(f *file) { f.Name = name }) }

// Retype changes a media type.
func (s *Server) Retype(id, mime string) { s.change(id, func(f *file) { f.Mime = mime }) }

// Star changes metadata that nobody here looks at.
func (s *Server) Star(id string) { s.change(id, func(*file) {}) }

// Move puts an item into other folders: one, for all but items from before 2020.
func (s *Server) Move(id string, parents ...string) {
	s.changeBelow(id, func(f *file) { f.Parents = slices.Clone(parents) })
}

// Trash puts an item, with what is below it, into the trash, or takes it out.
func (s *Server) Trash(id string, trashed bool) {
	s.changeBelow(id, func(f *file) { f.Trashed = trashed })
}

// Share gives or takes the account's access to an item, and to what is below it.
func (s *Server) Share(id string, access bool) {
	below := s.only(id)
	s.change(id, func(f *file) { f.Access = access })
	for _, b := range below {
		s.mu.Lock()
		s.files[b].Access = access
		s.mu.Unlock()
		if s.ReportBelow {
			s.change(b, func(*file) {})
		}
	}
}

// AllowDownload is what capabilities.canDownload says.
func (s *Server) AllowDownload(id string, can bool) {
	s.change(id, func(f *file) { f.CanDownload = can })
}

// Delete removes an item, with what is below it, for good.
func (s *Server) Delete(id string) {
	below := s.only(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	f, is := s.files[id]
	if !is {
		return
	}
	feed := s.feeds[s.driveOf(f)]
	for _, b := range below {
		delete(s.files, b)
		if s.ReportBelow {
			feed.add(b)
		}
	}
	delete(s.files, id)
	feed.add(id) // its place in the order stays, so that pages go on where they were
}

// only is what is below a folder and nowhere else.
func (s *Server) only(id string) []string {
	below := s.Below(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		kept := slices.DeleteFunc(slices.Clone(below), func(b string) bool {
			return slices.ContainsFunc(s.files[b].Parents, func(p string) bool {
				return s.files[p] != nil && p != id && !slices.Contains(below, p)
			})
		})
		if len(kept) == len(below) {
			return kept
		}
		below = kept
	}
}

// Below returns what is below a folder.
func (s *Server) Below(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, queue := map[string]bool{id: true}, []string{id}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, f := range s.files {
			if slices.Contains(f.Parents, at) && !found[f.ID] {
				found[f.ID] = true
				queue = append(queue, f.ID)
			}
		}
	}
	delete(found, id)
	return slices.Sorted(maps.Keys(found))
}

// driveOf is the shared drive that an item is in; "" is none.
func (s *Server) driveOf(f *file) string {
	for range 1000 {
		if _, is := s.drives[f.ID]; is {
			return f.ID
		}
		if len(f.Parents) == 0 {
			return ""
		}
		up, is := s.files[f.Parents[0]]
		if !is {
			return ""
		}
		f = up
	}
	return ""
}

// visible tells whether the account can see an item.
func (s *Server) visible(f *file) bool {
	if f == nil || !f.Access {
		return false
	}
	drive := s.driveOf(f)
	return drive == "" || s.drives[drive].member
}

// trashed tells whether an item, or every folder that it is in, is in the trash.
func (s *Server) trashed(f *file) bool {
	if f.Trashed {
		return true
	}
	found := false
	visited, queue := map[string]bool{f.ID: true}, []*file{f}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		ups := 0
		for _, p := range at.Parents {
			up := s.files[p]
			if up == nil {
				continue
			}
			ups++
			if up.Trashed {
				found = true
			} else if !visited[p] {
				visited[p] = true
				queue = append(queue, up)
			}
		}
		if ups == 0 {
			return false
		}
	}
	return found
}

// resource is what the API says of an item.
func (s *Server) resource(f *file) map[string]any {
	r := map[string]any{
		"kind": "drive#file", "id": f.ID, "name": f.Name, "mimeType": f.Mime, "trashed": s.trashed(f),
		"version": strconv.Itoa(f.Version), "modifiedTime": f.Modified.Format("2006-01-02T15:04:05.000Z"),
		"webViewLink":  "https://drive.example/file/d/" + f.ID + "/view",
		"capabilities": map[string]any{"canDownload": f.CanDownload, "canEdit": false},
	}
	var parents []any // the account is not told of parents that it cannot see
	for _, p := range f.Parents {
		if s.visible(s.files[p]) {
			parents = append(parents, p)
		}
	}
	if parents != nil {
		r["parents"] = parents
	}
	if d := s.driveOf(f); d != "" {
		r["driveId"] = d
	}
	if f.Mime == ShortcutType {
		details := map[string]any{"targetId": f.Target}
		if t := s.files[f.Target]; s.visible(t) {
			details["targetMimeType"] = t.Mime
		}
		r["shortcutDetails"] = details
	}
	if !strings.HasPrefix(f.Mime, "application/vnd.google-apps.") {
		sum := md5.Sum(f.Content) //nolint:gosec // see above
		r["size"], r["md5Checksum"] = strconv.Itoa(len(f.Content)), hex.EncodeToString(sum[:])
		r["headRevisionId"] = fmt.Sprintf("rev%d", f.Revision)
	}
	return r
}
