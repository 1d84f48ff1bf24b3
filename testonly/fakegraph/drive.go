package fakegraph

import (
	"slices"
	"strings"
)

// drive is one drive; its items are in Server.items.
type drive struct {
	id, root, name string
	site           string
}

type item struct {
	id, name, parent, drive string
	folder                  bool
	content                 []byte
	ctag, etag              int
	seq                     int64 // of its last change
	deleted                 bool
	forbidden, revoked      bool
	malware, pack, remote   bool
	mediaType               string
	// sizeOff is added to the size that is listed, as where SharePoint rewrites a file while it serves it.
	sizeOff int
	// been are the folders it has ever been in: their deltas report that it left.
	been map[string]bool
}

// NewDrive makes a drive and returns its id and that of its root. site may be empty.
func (s *Server) NewDrive(name, site string) (id, root string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = s.newID("drive")
	r := s.add("", "root", id)
	r.folder = true
	s.drives[id] = &drive{id: id, root: r.id, name: name, site: site}
	return id, r.id
}

func (s *Server) add(parent, name, driveID string) *item {
	it := &item{id: s.newID("item"), name: name, parent: parent, drive: driveID, ctag: 1, etag: 1, been: map[string]bool{}}
	if p := s.items[parent]; p != nil {
		it.drive = p.drive
	}
	s.items[it.id] = it
	s.put(it, parent)
	it.seq = s.change()
	s.visit(it)
	return it
}

// put makes a folder an item's parent.
func (s *Server) put(it *item, parent string) {
	delete(s.kids[it.parent], it.id)
	if it.parent = parent; s.kids[parent] == nil {
		s.kids[parent] = map[string]*item{}
	}
	s.kids[parent][it.id] = it
}

// visit remembers where an item and what lies below it is.
func (s *Server) visit(it *item) {
	for up := it.parent; up != ""; up = s.items[up].parent {
		it.been[up] = true
	}
	for _, below := range s.below(it.id) {
		s.visit(below)
	}
}

// below are the direct children of a folder, in the order they were made.
func (s *Server) below(id string) []*item {
	var all []*item
	for _, it := range s.kids[id] {
		if !it.deleted {
			all = append(all, it)
		}
	}
	slices.SortFunc(all, func(a, b *item) int { return strings.Compare(a.id, b.id) })
	return all
}

// Folder makes a folder.
func (s *Server) Folder(parent, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.add(parent, name, "")
	it.folder = true
	return it.id
}

// File makes a file.
func (s *Server) File(parent, name, content string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.add(parent, name, "")
	it.content = []byte(content)
	return it.id
}

// Set changes what is odd about an item without changing its version.
func (s *Server) Set(id string, oddity Oddity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oddity(s.items[id])
}

// Oddity is something out of the ordinary about an item.
type Oddity func(*item)

// Malware flags a file, so that it cannot be downloaded.
func Malware(i *item) { i.malware = true }

// Notebook makes an item a package.
func Notebook(i *item) { i.pack = true }

// Shortcut makes an item a remote one.
func Shortcut(i *item) { i.remote = true }

// MediaType is what a file's media type is listed as.
func MediaType(t string) Oddity { return func(i *item) { i.mediaType = t } }

// Rewritten serves a file with more bytes than are listed.
func Rewritten(i *item) { i.sizeOff = -3 }

// Shortened serves a file with fewer bytes than are listed.
func Shortened(i *item) { i.sizeOff = 3 }

// Revoke takes a file out of the account's sight, or gives it back: deltas report it as deleted, as they do with the
// header deltashowremovedasdeleted.
func (s *Server) Revoke(id string, revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[id].revoked = revoked
	s.items[id].seq = s.change()
}

// Forbid takes the permission to read an item's content away, or gives it back. It stays listed, in the same version.
func (s *Server) Forbid(id string, forbidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[id].forbidden = forbidden
}

// Write changes a file's content.
func (s *Server) Write(id, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[id]
	it.content = []byte(content)
	it.ctag++
	it.etag++
	it.seq = s.change()
}

// Rename changes an item's name.
func (s *Server) Rename(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[id]
	it.name = name
	it.etag++
	it.seq = s.change()
}

// Move puts an item in another folder. It does nothing that would make a folder its own.
func (s *Server) Move(id, parent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for up := parent; up != ""; up = s.items[up].parent {
		if up == id {
			return
		}
	}
	it := s.items[id]
	s.put(it, parent)
	it.etag++
	it.seq = s.change()
	s.visit(it)
}

// Delete removes an item and what lies below it. What lies below is reported only with ReportBelow.
func (s *Server) Delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(s.items[id], true)
}

func (s *Server) remove(it *item, report bool) {
	for _, below := range s.below(it.id) {
		s.remove(below, s.ReportBelow)
	}
	it.deleted = true
	if report {
		it.seq = s.change()
	}
}

// in tells whether an item lies in a folder, at any depth, or is it.
func (s *Server) in(it *item, folder string) bool {
	for at := it; at != nil; at = s.items[at.parent] {
		if at.id == folder {
			return true
		}
	}
	return false
}

func (s *Server) webURL(it *item) string {
	var names []string
	for at := it; at != nil && at.parent != ""; at = s.items[at.parent] {
		names = append([]string{at.name}, names...)
	}
	return "https://contoso.example/" + it.drive + "/" + strings.Join(names, "/")
}

// Content is what a file is, as far as it can be seen from outside.
type Content struct {
	Name, URL, Text string
	// Refused says that it cannot be read: forbidden, or of a kind that is not read.
	Refused bool
}

// Contents are all files in a folder, at any depth, by id.
func (s *Server) Contents(folder string) map[string]Content {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]Content{}
	for _, it := range s.items {
		if it.deleted || it.revoked || it.folder || !s.in(it, folder) {
			continue
		}
		all[it.id] = Content{
			Name: it.name, URL: s.webURL(it), Text: string(it.content), Refused: it.forbidden || it.malware || it.pack || it.remote,
		}
	}
	return all
}

// Deleted tells whether an item is.
func (s *Server) Deleted(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[id].deleted
}

// In tells whether an item lies in a folder, at any depth, or is it.
func (s *Server) In(id, folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in(s.items[id], folder)
}
