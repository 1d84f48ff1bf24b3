package rootblob

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// maxInodes bounds the remembered inodes of private folders. A data folder of Postgres and NATS has some thousands.
const maxInodes = 200_000

// tick is longer than the steps of the kernel's clock for times of change.
const tick = 20 * time.Millisecond

type inode struct{ device, number uint64 }

func inodeOf(info fs.FileInfo) (at inode, links uint64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return inode{uint64(stat.Dev), stat.Ino}, uint64(stat.Nlink) //nolint:unconvert // systems have other sizes
	}
	return inode{}, 1
}

// inodes are the files and folders in private folders, and the targets of links in them. A folder is read again only when it
// has changed, so that a walk costs one stat of each folder.
type inodes struct {
	seen map[inode]*sighting
	// folders are the walked folders, by path.
	folders map[string]*folder
	// linkedFolders are the folders to which links lead, linked the files.
	linkedFolders []string
	linked        map[inode]bool
	// overflow says that there are more inodes than can be remembered: from then on any second name may lead to one of them.
	overflow bool
	// round counts walks.
	round int
}

// sighting is the remembered state of a file or folder.
type sighting struct {
	// names is how many names lead to it now. At 0 it is deleted, and another file may get its number.
	names          int
	size, modified int64
	mode           fs.FileMode
}

func (s *sighting) take(info fs.FileInfo) {
	s.size, s.modified, s.mode = info.Size(), info.ModTime().UnixNano(), info.Mode()
}

func (s *sighting) is(info fs.FileInfo) bool {
	return s.size == info.Size() && s.modified == info.ModTime().UnixNano() && s.mode == info.Mode()
}

type folder struct {
	info           fs.FileInfo
	read           time.Time
	inodes         []inode // of its files, and its own
	folders, links []string
	round          int // the last walk that found it
}

func newInodes() *inodes {
	return &inodes{seen: map[inode]*sighting{}, folders: map[string]*folder{}}
}

// has tells whether a file is, or was, in a private folder.
func (n *inodes) has(at inode, info fs.FileInfo) bool {
	s := n.seen[at]
	return s != nil && (s.names > 0 || n.linked[at] || s.is(info))
}

func (n *inodes) walk(tops []string) {
	if n.overflow {
		return
	}
	n.round++
	n.linkedFolders, n.linked = nil, map[inode]bool{}
	for _, top := range tops {
		n.enter(top, tops)
	}
	if n.overflow {
		return // folders that were not reached are not gone
	}
	for path, f := range n.folders {
		if f.round != n.round {
			n.leave(f)
			delete(n.folders, path)
		}
	}
}

// full tells whether no more inodes can be remembered. Deleted files are forgotten first.
func (n *inodes) full() bool {
	if len(n.seen) < maxInodes {
		return false
	}
	for at, s := range n.seen {
		if s.names == 0 {
			delete(n.seen, at)
		}
	}
	return len(n.seen) >= maxInodes
}

// enter walks a folder and all folders below it. A folder that vanishes is skipped, and so is a folder that may not be read: no
// link to it can be read either.
func (n *inodes) enter(path string, tops []string) {
	f := n.folders[path]
	if f != nil && f.round == n.round {
		return
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return
	}
	if f == nil || !os.SameFile(f.info, info) || !f.info.ModTime().Equal(info.ModTime()) || f.read.Sub(info.ModTime()) < tick {
		fresh := n.read(path, info)
		if f != nil {
			n.leave(f)
		}
		f = fresh
		n.folders[path] = f
	}
	f.round = n.round
	if n.overflow {
		return
	}
	for _, sub := range f.folders {
		n.enter(sub, tops)
	}
	for _, link := range f.links {
		n.follow(link, tops)
	}
}

// read reads a folder.
func (n *inodes) read(path string, info fs.FileInfo) *folder {
	f := &folder{info: info, read: time.Now()}
	n.note(f, info)
	entries, _ := os.ReadDir(path) // entries that were read before an error count
	for _, e := range entries {
		at := filepath.Join(path, e.Name())
		switch kind := e.Type(); {
		case kind.IsDir():
			f.folders = append(f.folders, at)
		case kind&fs.ModeSymlink != 0:
			f.links = append(f.links, at)
		case kind.IsRegular():
			if info, err := e.Info(); err == nil {
				n.note(f, info)
			}
		}
	}
	return f
}

func (n *inodes) note(f *folder, info fs.FileInfo) {
	if at, s := n.remember(info); s != nil {
		s.names++
		f.inodes = append(f.inodes, at)
	}
}

// remember returns the sighting of an existing file or folder; nil where no more can be remembered.
func (n *inodes) remember(info fs.FileInfo) (inode, *sighting) {
	at, _ := inodeOf(info)
	s := n.seen[at]
	if s == nil {
		if n.overflow = n.overflow || n.full(); n.overflow {
			return at, nil
		}
		s = &sighting{}
		n.seen[at] = s
	}
	s.take(info)
	return at, s
}

// leave takes a deleted folder, or one that is read again, out of the counts.
func (n *inodes) leave(f *folder) {
	for _, at := range f.inodes {
		if s := n.seen[at]; s != nil {
			s.names--
		}
	}
}

// follow makes the target of a link in a private folder private as well, but not a folder in which the private one lies.
func (n *inodes) follow(link string, tops []string) {
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return
	}
	info, err := os.Stat(target)
	if err != nil {
		return
	}
	if info.IsDir() {
		for _, top := range tops {
			if target == top || target == "/" || strings.HasPrefix(top, target+"/") {
				return
			}
		}
		n.linkedFolders = append(n.linkedFolders, target)
		n.enter(target, tops)
		return
	}
	if info.Mode().IsRegular() {
		at, _ := n.remember(info)
		n.linked[at] = true
	}
}
