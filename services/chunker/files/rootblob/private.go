package rootblob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrPrivate says that an entry is never read, whoever asks for it.
var ErrPrivate = errors.New("not read: it may hold this program's own secrets (its data folder, its key files, .env)")

// Private is what is never read: this program's own folders and files, known by what they are and not by their names, so
// that no link, second name or other spelling leads to them; and files that are called .env. It is safe for concurrent use.
type Private struct {
	paths []string // absolute

	mu     sync.Mutex
	found  []own // what has been at a path since the first look: a key that was replaced is one still
	looked time.Time
	within *inodes // of the files in private folders; nil until one is needed
}

type own struct {
	path string // where it was found, links resolved
	info fs.FileInfo
}

// system are folders of the kernel's. Below /proc stands the environment of every process, with its passwords.
var system = map[string][]string{"linux": {"/proc", "/sys"}}[runtime.GOOS]

// relook is how long a look is good for. A key that is replaced under its own name is noticed at once.
const relook = time.Second

// LookPrivate looks at folders and files. It looks again while it is used: key files come and go.
func LookPrivate(paths ...string) *Private {
	p := &Private{}
	for _, path := range append(append([]string(nil), system...), paths...) {
		if absolute, err := filepath.Abs(path); err == nil {
			p.paths = append(p.paths, absolute)
		}
	}
	p.look(time.Now())
	return p
}

func (p *Private) look(now time.Time) {
	p.looked = now
	for _, path := range p.paths {
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		info, err := os.Stat(resolved)
		if err == nil && !p.has(info) {
			p.found = append(p.found, own{resolved, info})
		}
	}
}

func (p *Private) has(info fs.FileInfo) bool {
	for _, o := range p.found {
		if os.SameFile(o.info, info) {
			return true
		}
	}
	return false
}

// Refuses returns ErrPrivate for an entry that is never read. name is its last element.
func (p *Private) Refuses(name string, info fs.FileInfo) error {
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
	if now := time.Now(); p.named(name) || now.Sub(p.looked) >= relook {
		p.look(now)
	}
	if p.has(info) || p.linked(info) {
		return ErrPrivate
	}
	return nil
}

// named tells whether something private has, or may get, this name.
func (p *Private) named(name string) bool {
	for _, path := range p.paths {
		if strings.EqualFold(filepath.Base(path), name) {
			return true
		}
	}
	for _, o := range p.found {
		if strings.EqualFold(filepath.Base(o.path), name) {
			return true
		}
	}
	return false
}

// maxInodes bounds the files in private folders that are remembered.
const maxInodes = 200_000

type inode struct{ device, number uint64 }

// inodes are the files in private folders.
type inodes struct {
	files  map[inode]struct{}
	walked time.Time
	// over says that there are too many, or some that cannot be looked at: any second name may lead to one of them.
	over bool
}

// linked tells whether a file is a second name of one in a private folder. Who may link there owns both, or the system
// does not protect hard links.
func (p *Private) linked(info fs.FileInfo) bool {
	at, links := inodeOf(info)
	if !info.Mode().IsRegular() || links < 2 {
		return false
	}
	if now := time.Now(); p.within == nil || now.Sub(p.within.walked) >= relook {
		p.within = p.walk(now)
	}
	_, private := p.within.files[at]
	return private || p.within.over
}

func (p *Private) walk(now time.Time) *inodes {
	all := &inodes{files: map[inode]struct{}{}, walked: now}
	for _, o := range p.found {
		if !o.info.IsDir() || p.isSystem(o.path) {
			continue
		}
		_ = filepath.WalkDir(o.path, func(_ string, entry fs.DirEntry, err error) error {
			if all.over {
				return fs.SkipAll
			}
			if err != nil {
				// What vanishes is the server's own business. What may not be looked at may not be linked to and read either.
				return nil //nolint:nilerr // see above
			}
			if !entry.Type().IsRegular() {
				return nil
			}
			if info, err := entry.Info(); err == nil {
				at, _ := inodeOf(info)
				all.files[at] = struct{}{}
				all.over = len(all.files) > maxInodes
			}
			return nil
		})
	}
	return all
}

func (p *Private) isSystem(path string) bool {
	for _, folder := range system {
		if path == folder {
			return true
		}
	}
	return false
}

func inodeOf(info fs.FileInfo) (at inode, links uint64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return inode{uint64(stat.Dev), stat.Ino}, uint64(stat.Nlink) //nolint:unconvert // systems have other sizes
	}
	return inode{}, 1
}

// Holds tells whether a folder, by its resolved path, is a private one or lies in one.
func (p *Private) Holds(folder string) bool {
	for at := folder; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.IsDir() && p.Refuses("", info) != nil {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// below tells whether something private lies, or may come to lie, below a folder.
func (p *Private) below(folder fs.FileInfo) bool {
	if p == nil {
		return false
	}
	paths := append([]string(nil), p.paths...)
	for _, o := range p.found {
		paths = append(paths, o.path)
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
