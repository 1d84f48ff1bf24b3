package googledrive

import (
	"context"
	"path"
	"unicode/utf8"

	"github.com/echomind/sync/sdk/worker"
)

const (
	// DefaultHeldBytes bounds what a sync holds of folders, shortcuts and their targets. 32,000 folders with usual names take it.
	DefaultHeldBytes = 16 << 20
	// heldBeside is about what is taken by a folder or shortcut beside its texts: in maps, and by the texts' ends.
	heldBeside = 320
	// maxExt is the longest extension that says what a file is read as.
	maxExt = 32
)

// clip bounds what people see of an item to what is stored of it. Google takes names of 32,767 characters. What is cut is
// copied, so that nothing holds the whole.
func (f *item) clip() {
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
		f.Link = "" // a part of it leads nowhere
	}
}

// weight is about what an item takes.
func (f item) weight() int {
	n := 2*heldBeside + len(f.ID) + len(f.Name) + len(f.MimeType) + len(f.DriveID) + len(f.MD5) + len(f.Revision) + len(f.Modified) +
		len(f.Link) + len(f.key) + len(f.Shortcut.Target) + len(f.Shortcut.TargetKey)
	for _, p := range f.Parents {
		n += heldBeside/8 + len(p)
	}
	return n
}

// folder is what is held of a folder until it is stored.
type folder struct {
	title, link string
	parents     []string
}

func (f folder) item(id string) item {
	return item{ID: id, Name: f.title, MimeType: folderType, Link: f.link, Parents: f.parents}
}

func (f folder) weight(id string) int {
	n := heldBeside + len(id) + len(f.title) + len(f.link)
	for _, p := range f.parents {
		n += heldBeside/8 + len(p)
	}
	return n
}

// folders are held by their ids.
type folders map[string]folder

// hold takes a folder that has changed, in place of what was said of it before. One for which there is no room is
// stored at once; where it turns out to be below no root, it is removed at the end of the round.
func (s *syncer) hold(ctx context.Context, f item) error {
	s.drop(f.ID)
	one := folder{title: f.Name, link: f.Link, parents: f.Parents}
	if !s.takes(one.weight(f.ID)) {
		return s.storeFolder(ctx, f.ID, one)
	}
	s.changed[f.ID] = one
	return nil
}

// drop forgets a folder.
func (s *syncer) drop(id string) {
	if f, had := s.changed[id]; had {
		s.gives(f.weight(id))
		delete(s.changed, id)
	}
}

// storeChanged stores the folders that are held.
func (s *syncer) storeChanged(ctx context.Context) error {
	for id, f := range s.changed {
		if err := s.storeFolder(ctx, id, f); err != nil {
			return err
		}
		s.drop(id)
	}
	return nil
}

func (s *syncer) storeFolder(ctx context.Context, id string, f folder) error {
	parents, in := s.tree.place(f.parents)
	if !in {
		s.leaves(id)
		return nil
	}
	return s.folder(ctx, f.item(id), parents)
}

// leaves takes note of a folder that is below no root. Of one that is stored it is known at the end of the round whether it
// stays so; any other is not held: what brings it below a root is a folder that comes, and all that is below that is listed.
func (s *syncer) leaves(id string) {
	if _, stored := s.stored(id); stored {
		s.left[id] = struct{}{}
		return
	}
	delete(s.tree.folders, id)
}

// takes counts what is to be held, if there is room for it.
func (s *syncer) takes(bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held+bytes > s.opts.HeldBytes {
		return false
	}
	s.held += bytes
	return true
}

// room is how much more is held.
func (s *syncer) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.HeldBytes - s.held
}

func (s *syncer) gives(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= bytes
}
