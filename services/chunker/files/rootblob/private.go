package rootblob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrPrivate says that an entry is never read, whoever asks for it.
var ErrPrivate = errors.New("not read: it may hold this program's own secrets (its data folder, its key files, .env)")

// Private is what is never read: this program's own folders and files, known by what they are and not by their names, so
// that no link, second name or other spelling leads to them; and files that are called .env.
type Private struct{ found []own }

type own struct {
	path string // where it was found, links resolved
	info fs.FileInfo
}

// system are folders of the kernel's. Below /proc stands the environment of every process, with its passwords.
var system = map[string][]string{"linux": {"/proc", "/sys"}}[runtime.GOOS]

// LookPrivate looks at folders and files. One that is not there now is no secret now: look again before each reading.
func LookPrivate(paths ...string) *Private {
	p := &Private{}
	for _, path := range append(append([]string(nil), system...), paths...) {
		resolved, err := filepath.Abs(path)
		if err == nil {
			resolved, err = filepath.EvalSymlinks(resolved)
		}
		if err != nil {
			continue
		}
		if info, err := os.Stat(resolved); err == nil {
			p.found = append(p.found, own{resolved, info})
		}
	}
	return p
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
	for _, o := range p.found {
		if os.SameFile(o.info, info) {
			return ErrPrivate
		}
	}
	return nil
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

// below tells whether something private lies below a folder.
func (p *Private) below(folder fs.FileInfo) bool {
	if p == nil {
		return false
	}
	for _, o := range p.found {
		for at := filepath.Dir(o.path); ; at = filepath.Dir(at) {
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
