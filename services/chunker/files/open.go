package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrPermanent says that a sync cannot succeed until its configuration, or the folder, is changed.
var ErrPermanent = errors.New("cannot succeed as configured")

// permanent keeps the text of err free of the sentinel, which means nothing to people.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{ErrPermanent, p.error} }

func permanentf(format string, args ...any) error { return permanent{fmt.Errorf(format, args...)} }

// openFolder opens folder if it is, or is in, one of roots once links are resolved. It is opened from that
// root, so that a link put in its way meanwhile cannot lead out either.
func openFolder(folder string, roots []string) (*os.Root, error) {
	resolved, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, folderError(folder, roots, err)
	}
	for _, r := range roots {
		if !filepath.IsAbs(r) {
			return nil, permanentf("open folder: allowed root %q is not absolute; set CHUNKER_FILE_ROOTS to absolute paths", r)
		}
		allowed, err := filepath.EvalSymlinks(r)
		if err != nil || !within(resolved, allowed) {
			continue
		}
		return openWithin(folder, resolved, allowed)
	}
	return nil, outside(folder, roots)
}

func openWithin(folder, resolved, allowed string) (*os.Root, error) {
	top, err := os.OpenRoot(allowed)
	if err != nil {
		return nil, folderError(folder, []string{folder}, err)
	}
	defer top.Close()
	rel, err := filepath.Rel(allowed, resolved)
	if err != nil {
		return nil, permanentf("open folder: %w", err)
	}
	info, err := top.Stat(rel)
	if err == nil && !info.IsDir() {
		return nil, permanentf("url: %q is not a folder; name the folder that holds it and include it by name", folder)
	}
	if err != nil {
		return nil, folderError(folder, []string{folder}, err)
	}
	root, err := top.OpenRoot(rel)
	if err != nil {
		return nil, folderError(folder, []string{folder}, err)
	}
	return root, nil
}

// folderError does not tell whether a folder outside of the roots exists.
func folderError(folder string, roots []string, err error) error {
	allowed := false
	for _, r := range roots {
		allowed = allowed || within(folder, filepath.Clean(r))
	}
	switch {
	case !allowed:
		return outside(folder, roots)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return permanentf("url: the folder %q does not exist; create it, or correct the url", folder)
	}
	return fmt.Errorf("open folder %q: %w", folder, reasonOf(err))
}

func outside(folder string, roots []string) error {
	if len(roots) == 0 {
		return permanentf("url: the folder %q is not allowed, since no folders are; list allowed roots in CHUNKER_FILE_ROOTS", folder)
	}
	return permanentf("url: the folder %q is not in an allowed root (%s); add its root to CHUNKER_FILE_ROOTS",
		folder, strings.Join(roots, ", "))
}

func within(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// reasonOf strips the operation and path that the system's errors carry: reasons are shown beside the
// document, and compared between syncs.
func reasonOf(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
