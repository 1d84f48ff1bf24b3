package rootblob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrPrivate says that no connector may ever read an entry.
var ErrPrivate = errors.New("not read: it may hold this program's own secrets (its data folder, its key files, .env)")

// Private are the files and folders that are never read: this program's own, recognised by inode and not by name, so that no
// link, second name, mount or other spelling leads to them; and files called .env. Private remembers what it has seen: an old
// key is still a key. It is safe for concurrent use.
type Private struct {
	paths []string // absolute

	mu      sync.Mutex
	now     map[string]privateEntry // the entry at each path
	earlier []fs.FileInfo           // earlier entries of these paths
	looked  time.Time
	within  *inodes // entries of private folders; nil until it is needed
}

type privateEntry struct {
	path string // the path with links resolved
	info fs.FileInfo
	gone bool // another file may have got its number
}

// system are folders of the kernel's. /proc shows the environment of every process, with its passwords.
var system = map[string][]string{"linux": {"/proc", "/sys"}}[runtime.GOOS]

const (
	// relook is how long a look is valid while names are listed. Each open has a look of its own.
	relook = time.Second
	// maxEarlier bounds the remembered old keys.
	maxEarlier = 1000
)

// LookPrivate looks at folders and files. It looks again while it is used: key files are made and deleted.
func LookPrivate(paths ...string) *Private {
	p := &Private{now: map[string]privateEntry{}}
	for _, path := range append(append([]string(nil), system...), paths...) {
		if absolute, err := filepath.Abs(path); err == nil {
			p.paths = append(p.paths, absolute)
		}
	}
	p.Look()
	return p
}

// Look looks at all private paths, so that it knows when another file has replaced one.
func (p *Private) Look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look()
	p.walk()
}

func (p *Private) look() {
	p.looked = time.Now()
	for _, path := range p.paths {
		info, err := os.Stat(path)
		was, is := p.now[path]
		switch {
		case err != nil && is:
			was.gone = true
			p.now[path] = was
			continue
		case err != nil:
			continue
		case is && os.SameFile(was.info, info):
			p.now[path] = privateEntry{path: was.path, info: info}
			continue
		}
		if is && len(p.earlier) < maxEarlier {
			p.earlier = append(p.earlier, was.info)
		}
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil {
			resolved = path
		}
		p.now[path] = privateEntry{path: resolved, info: info}
	}
}

func (p *Private) has(info fs.FileInfo) bool {
	for _, o := range p.now {
		if os.SameFile(o.info, info) && (!o.gone || unchanged(o.info, info)) {
			return true
		}
	}
	for _, old := range p.earlier {
		if os.SameFile(old, info) && (info.IsDir() || unchanged(old, info)) {
			return true
		}
	}
	return false
}

// unchanged distinguishes a known file from a new file with the same inode number.
func unchanged(seen, info fs.FileInfo) bool {
	return seen.Size() == info.Size() && seen.ModTime().Equal(info.ModTime())
}

// refuses returns ErrPrivate for an entry that is never read. name is its last element. again says that the entry is opened next: it
// looks again, after the entry was checked.
func (p *Private) refuses(name string, info fs.FileInfo, again bool) error {
	if strings.HasPrefix(name, ".") && !info.IsDir() {
		if lower := strings.ToLower(name); lower == ".env" || lower == ".envrc" || strings.HasPrefix(lower, ".env.") {
			return ErrPrivate
		}
	}
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	again = again || time.Since(p.looked) >= relook
	if again || p.hasPrivateName(name) {
		p.look()
	}
	if p.has(info) || p.isWithin(info, again) {
		return ErrPrivate
	}
	return nil
}

// hasPrivateName tells whether a private file has, or may get, this name.
func (p *Private) hasPrivateName(name string) bool {
	for path, o := range p.now {
		if strings.EqualFold(filepath.Base(path), name) || strings.EqualFold(filepath.Base(o.path), name) {
			return true
		}
	}
	for _, path := range p.paths {
		if strings.EqualFold(filepath.Base(path), name) {
			return true
		}
	}
	return false
}

// isWithin tells whether an entry lies in a private folder, under any name. A second name may be newer than the last walk; only the
// file's owner can make it, or anybody where the system does not protect hard links.
func (p *Private) isWithin(info fs.FileInfo, again bool) bool {
	at, links := inodeOf(info)
	second := info.Mode().IsRegular() && links > 1
	if p.within == nil || second && again {
		p.walk()
	}
	if second && p.within.overflow {
		return true
	}
	if !p.within.has(at, info) {
		return false
	}
	p.walk() // a new file may have the number of a file that was just deleted
	return p.within.has(at, info)
}

// walk walks the private folders.
func (p *Private) walk() {
	if p.within == nil {
		p.within = newInodes()
	}
	var folders []string
	for _, o := range p.now {
		if o.info.IsDir() && !slices.Contains(system, o.path) {
			folders = append(folders, o.path)
		}
	}
	p.within.walk(folders)
}

// Holds tells whether a folder, by its resolved path, is a private one or lies in one.
func (p *Private) Holds(folder string) bool {
	for at := folder; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.IsDir() && p.refuses("", info, true) != nil {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// hasBelow tells whether a private entry lies, or may come to lie, below a folder.
func (p *Private) hasBelow(folder fs.FileInfo) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	paths := append([]string(nil), p.paths...)
	for _, o := range p.now {
		paths = append(paths, o.path)
	}
	if p.within != nil {
		paths = append(paths, p.within.linkedFolders...)
	}
	for _, path := range paths {
		for at := filepath.Dir(path); ; at = filepath.Dir(at) {
			if info, err := os.Stat(at); err == nil && os.SameFile(folder, info) {
				return true
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return false
}
