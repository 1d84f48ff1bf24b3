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

// refusedf is for what other settings of this service may allow.
func refusedf(format string, args ...any) error {
	return worker.Refused(fmt.Errorf(format, args...))
}

// openFolder opens folder if it is, or is in, one of roots after links are resolved. It opens it through the root's handle from
// the service's start, so that no replaced folder on the way leads out of the root. A folder that never existed is the
// configuration's fault; a folder that has vanished is away.
func openFolder(folder string, roots *Roots, first bool) (*os.Root, *rootblob.Private, error) {
	if roots == nil || len(roots.all) == 0 {
		return nil, nil, refusedf("url: the folder %q is not allowed, since no folders are; list allowed roots in %s", folder, rootsHint)
	}
	private := roots.private
	private.Look() // key files are made and deleted meanwhile
	opened, err := roots.open(folder, folder, private)
	if errors.Is(err, errNoRoot) {
		// A link on the way may lead into a root.
		if resolved, broken := filepath.EvalSymlinks(folder); broken == nil {
			opened, err = roots.open(folder, resolved, private)
		}
	}
	if errors.Is(err, errNoRoot) {
		// The error says neither whether the folder exists nor which roots there are: both may be another user's.
		err = refusedf("url: the folder %q is not in an allowed root; add its root to %s", folder, rootsHint)
	}
	if errors.Is(err, errAbsent) && !first {
		err = fmt.Errorf("the folder %q is not there now; mount it again, or correct the url", folder)
	}
	return opened, private, err
}

// errAbsent says that a folder does not exist.
var errAbsent = errors.New("does not exist")

// errNoRoot says that a folder is in no root.
var errNoRoot = errors.New("in no root")

// open opens a folder by its path.
func (r *Roots) open(folder, path string, private *rootblob.Private) (*os.Root, error) {
	unusable := errNoRoot
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

// folderError is the error for a folder in a root.
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

// reasonOf removes the operation and path from a system's error: reasons are shown beside the document, and compared between
// syncs.
func reasonOf(err error) error {
	if errors.Is(err, rootblob.ErrPrivate) {
		return rootblob.ErrPrivate
	}
	if at, is := errors.AsType[*fs.PathError](err); is {
		return at.Err
	}
	return err
}
