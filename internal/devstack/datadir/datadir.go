// Package datadir keeps a folder for one process at a time: it makes the folder, claims it, and replaces the small
// files in it in one step.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNotFolder means that the path of a data folder exists and is no folder.
var ErrNotFolder = errors.New("not a folder")

// Make creates dir, where it is missing, for this user only. For root others may pass through it (0711), since an unprivileged
// server keeps its files below it; secrets are 0600 files. A folder that exists is left as it is.
func Make(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s: %w", dir, ErrNotFolder)
		}
		return nil
	}
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	// The umask may remove rights that the unprivileged server needs.
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("open the folder to its server: %w", err)
	}
	return nil
}

// Replace writes content to path (0600) so that a reader, or a crash at any moment, sees either the old file or the
// new one.
func Replace(path string, content []byte) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes renames and creations in dir survive a crash of the machine.
func SyncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
