package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files/rootblob"
)

func permanentf(format string, args ...any) error {
	return worker.Permanent(fmt.Errorf(format, args...))
}

// openFolder opens folder if it is, or is in, one of roots once links are resolved. It is opened from that root as it was
// opened when the service started, so that nothing that is put in its way leads out of it. One that never was there is the
// configuration's fault; one that was, and is not, is away.
func openFolder(folder string, roots *Roots, first bool) (*os.Root, *rootblob.Private, error) {
	if roots == nil || len(roots.all) == 0 {
		return nil, nil, permanentf("url: the folder %q is not allowed, since no folders are; list allowed roots in %s", folder, rootsHint)
	}
	private := roots.private
	private.Look() // key files come and go
	opened, err := roots.open(folder, folder, private)
	if errors.Is(err, errOutside) {
		// Links on the way may lead into a root all the same.
		if resolved, broken := filepath.EvalSymlinks(folder); broken == nil {
			opened, err = roots.open(folder, resolved, private)
		}
	}
	if errors.Is(err, errOutside) {
		// It says neither whether the folder exists nor which roots there are: both may be somebody else's.
		err = permanentf("url: the folder %q is not in an allowed root; add its root to %s", folder, rootsHint)
	}
	if errors.Is(err, errAbsent) && !first {
		err = fmt.Errorf("the folder %q is not there now; mount it again, or correct the url", folder)
	}
	return opened, private, err
}

// errAbsent says that a folder does not exist.
var errAbsent = errors.New("does not exist")

// errOutside says that a folder is in no root.
var errOutside = errors.New("outside")

// open opens a folder, by a path to it.
func (r *Roots) open(folder, path string, private *rootblob.Private) (*os.Root, error) {
	unusable := errOutside
	for _, root := range r.all {
		rel, is := root.in(path)
		if root.err != nil && (is || errors.Is(root.err, worker.ErrPermanent)) {
			unusable = root.err
			continue
		}
		if root.folder == nil || !is {
			continue
		}
		if err := root.exists(); err != nil {
			return nil, err
		}
		if private.Holds(root.resolved) {
			return nil, ownFolder(folder)
		}
		opened, err := rootblob.Descend(root.folder, filepath.ToSlash(rel), private)
		if rootblob.Escapes(err) {
			continue
		}
		return opened, folderError(folder, err)
	}
	return nil, unusable
}

func ownFolder(folder string) error {
	return permanentf("url: the folder %q is this program's own, and is never read; name another", folder)
}

// folderError is what is wrong with a folder in a root.
func folderError(folder string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rootblob.ErrPrivate):
		return ownFolder(folder)
	case errors.Is(err, syscall.ENOTDIR):
		return permanentf("url: %q is not a folder; name the folder that holds it and include it by name", folder)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		return permanentf("url: the folder %q %w; create it, or correct the url", folder, errAbsent)
	}
	return fmt.Errorf("open folder %q: %w", folder, reasonOf(err))
}

func within(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// reasonOf strips the operation and path that the system's errors carry: reasons are shown beside the
// document, and compared between syncs.
func reasonOf(err error) error {
	if errors.Is(err, rootblob.ErrPrivate) {
		return rootblob.ErrPrivate
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
