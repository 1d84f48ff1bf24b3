package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/echomind/sync/services/chunker/files/rootblob"
)

// rootsSetting is the setting that lists the roots; errors name it.
const rootsSetting = "CHUNKER_FILE_ROOTS"

// rootsHint names it for people who run the whole stack on their machine.
const rootsHint = rootsSetting + " (--file-roots of `echomind run`)"

// Roots are the folders in which sources may lie. They are opened once: a person who may rename one, and puts a link in its
// place, cannot lead a later sync to the link's target.
type Roots struct {
	all []root
	// private is shared by all syncs: it remembers what it has seen.
	private *rootblob.Private
}

type root struct {
	name, resolved string
	folder         *os.Root // nil: err says why
	err            error
}

// OpenRoots opens folders, absolute paths. private are folders and files that are never read, wherever they are: this program's
// data folder and key files.
func OpenRoots(names []string, private ...string) *Roots {
	r := &Roots{private: rootblob.LookPrivate(private...)}
	for _, name := range names {
		r.all = append(r.all, openRoot(name))
	}
	return r
}

func openRoot(name string) root {
	r := root{name: filepath.Clean(name)}
	if !filepath.IsAbs(name) {
		r.err = permanentf("%s: %q is not absolute; write absolute paths", rootsSetting, name)
		return r
	}
	if r.resolved, r.err = filepath.EvalSymlinks(name); r.err == nil {
		r.folder, r.err = os.OpenRoot(r.resolved)
	}
	if r.err != nil {
		r.err = fmt.Errorf("%s: %q could not be opened when this service started (%w); mend it and start the service again",
			rootsSetting, name, reasonOf(r.err))
	}
	return r
}

// Problems are the roots that could not be opened.
func (r *Roots) Problems() error {
	var problems []error
	for _, one := range r.all {
		problems = append(problems, one.err)
	}
	return errors.Join(problems...)
}

// Close closes the roots.
func (r *Roots) Close() error {
	var problems []error
	for _, one := range r.all {
		if one.folder != nil {
			problems = append(problems, one.folder.Close())
		}
	}
	return errors.Join(problems...)
}

// in returns a path relative to the root, by the root's own name or by its target when it was opened.
func (r root) in(path string) (rel string, is bool) {
	for _, base := range []string{r.name, r.resolved} {
		if rel, err := filepath.Rel(base, path); base != "" && err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}

// exists says whether a root's name still leads to the opened folder. A folder that was mounted again, or has replaced it, is
// read after the service has restarted.
func (r root) exists() error {
	opened, err := r.folder.Stat(".")
	if err != nil {
		return fmt.Errorf("check %s: %w", rootsSetting, reasonOf(err))
	}
	named, err := os.Lstat(r.resolved)
	if err != nil || !os.SameFile(opened, named) {
		return fmt.Errorf("%s: %q is not the folder any more that it was when this service started; put it back, or start the service again",
			rootsSetting, r.name)
	}
	return nil
}
