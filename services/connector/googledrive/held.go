package googledrive

import (
	"errors"
	"fmt"
	"path"
	"unicode/utf8"

	"github.com/echomind/sync/sdk/worker"
)

const (
	// maxFolders bounds what is held of the folders of a drive, or of all that are shared with the user.
	maxFolders = 300_000
	// maxHeldBytes bounds what a sync holds of folders and shortcuts until it knows where they are. 300,000 folders with usual
	// names take 80 MB.
	maxHeldBytes = 96 << 20
	// heldBeside is about what a map takes for one of these beside its texts.
	heldBeside = 128
	// maxExt is the longest extension that says what a file is read as.
	maxExt = 32
)

// errHeld says that there is more than is held.
var errHeld = errors.New("there are more folders and shortcuts than are held at once")

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
	n := 4*heldBeside + len(f.ID) + len(f.Name) + len(f.MimeType) + len(f.DriveID) + len(f.MD5) + len(f.Revision) + len(f.Modified) +
		len(f.Link) + len(f.key) + len(f.Shortcut.Target) + len(f.Shortcut.TargetKey)
	for _, p := range f.Parents {
		n += heldBeside/4 + len(p)
	}
	return n
}

// folder is what is held of a folder until it is known where it is.
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
		n += heldBeside/4 + len(p)
	}
	return n
}

// folders are held by their ids.
type folders map[string]folder

// hold takes a folder, in place of what was said of it before.
func (s *syncer) hold(in folders, f item) error {
	s.drop(in, f.ID)
	in[f.ID] = folder{title: f.Name, link: f.Link, parents: f.Parents}
	if len(in) > maxFolders {
		return fmt.Errorf("%w: at most %d folders", errHeld, maxFolders)
	}
	return s.weigh(in[f.ID].weight(f.ID))
}

// drop forgets a folder.
func (s *syncer) drop(in folders, id string) {
	if f, had := in[id]; had {
		s.held -= f.weight(id)
		delete(in, id)
	}
}

// weigh counts what is held.
func (s *syncer) weigh(bytes int) error {
	if s.held += bytes; s.held > maxHeldBytes {
		return fmt.Errorf("%w: at most %d bytes of their names and addresses", errHeld, maxHeldBytes)
	}
	return nil
}

// tooManyFolders says of a listing what its user can do about it.
func tooManyFolders(err error) error {
	if errors.Is(err, errHeld) {
		return permanentf("source: %w; make connectors of its folders", err)
	}
	return err
}
