// Package rootblob is a read-only gocloud.dev/blob driver for the inside of a folder.
//
// It uses os.Root: no key and no symbolic link leads out of the folder, whatever is renamed while it is read. gocloud's own
// fileblob follows links out of its folder, hides some names, and reads attribute files beside each file.
//
// Keys are slash-separated paths relative to the folder, escaped as Escape says. Links to regular files
// inside the folder are followed; every other entry that is not a regular file (links that lead out or to
// folders, devices, pipes, sockets, folders that cannot be read) is listed, so that it can be reported, and
// refused when opened. Links to folders are never descended into, so there are no loops.
package rootblob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

// ErrNotRegular says that an entry is neither a regular file nor a link to one.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooMany says that one folder holds more entries than Listing.Most. It ends the listing.
var ErrTooMany = errors.New("too many names")

// ErrNames says that the names of the open folders take more memory than Listing.MostBytes. It ends the listing.
var ErrNames = errors.New("too many names, or too long ones")

// ErrTooLong says that the path of an entry is longer than maxPathBytes. What is below it is unknown.
var ErrTooLong = fmt.Errorf("its path in the source's folder is longer than %d bytes; shorten the names of the folders that it is in", maxPathBytes)

// ErrReadOnly is the error of every write.
var ErrReadOnly = errors.New("folder is read-only here")

// Open returns a bucket of the files under root, except private ones, which are listed with their reason and refused when
// opened. Closing the bucket closes root.
func Open(root *os.Root, private *Private) *blob.Bucket {
	b := &bucket{root: root, private: private, holdsPrivate: true}
	if info, err := root.Stat("."); err == nil {
		b.holdsPrivate = private.hasBelow(info)
	}
	return blob.NewBucket(b)
}

// Listing has the options that blob.ListOptions.BeforeList can set, through its asFunc with a **Listing.
type Listing struct {
	// Skip leaves out a folder with everything in it. Its argument is the folder's path, not escaped, without a slash at the
	// end.
	Skip func(dir string) bool
	// Takes decides about the path of each other entry, not escaped; entries that it does not take are left out. nil takes all.
	Takes func(file string) bool
	// Most bounds the listed entries of one folder, folders among them; 0 = no bound.
	Most int
	// MostBytes bounds the memory for the names of all open folders; 0 = no bound.
	MostBytes int
}

// Entry is the value of blob.ListObject.As, with a *Entry.
type Entry struct {
	// Path is the entry's path before escaping, slash-separated.
	Path string
	// Mode is the entry's own type, without following links.
	Mode fs.FileMode
	// Err says why a folder could not be read; what is below it is then unknown, and its key ends in a slash.
	Err error
}

type bucket struct {
	root    *os.Root
	private *Private
	// holdsPrivate says that a private entry lies below root, so that every folder on a path must be checked.
	holdsPrivate bool

	mu sync.Mutex
	// parked is the walk at the end of the last page, so that the next page goes on without searching.
	parked *walk
}

func (b *bucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parked != nil {
		b.parked.close()
		b.parked = nil
	}
	return b.root.Close()
}

func (b *bucket) ErrorCode(err error) gcerrors.ErrorCode {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gcerrors.NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, ErrPrivate):
		return gcerrors.PermissionDenied
	case errors.Is(err, ErrReadOnly):
		return gcerrors.Unimplemented
	case errors.Is(err, ErrNotRegular):
		return gcerrors.FailedPrecondition
	case errors.Is(err, context.Canceled):
		return gcerrors.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return gcerrors.DeadlineExceeded
	}
	return gcerrors.Unknown
}

func (b *bucket) As(i any) bool { return as(i, b.root) }

// as sets what i points to, where that is a T: so gocloud gives out a driver's own types.
func as[T any](i any, own T) bool {
	p, ok := i.(*T)
	if ok {
		*p = own
	}
	return ok
}

// ErrorAs is never needed: driver errors stay in the error chain.
func (b *bucket) ErrorAs(error, any) bool { return false }

func (b *bucket) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := Unescape(key)
	if err != nil {
		return nil, err
	}
	at, err := locate(b.root, name, b.private)
	if err != nil {
		return nil, err
	}
	defer at.close()
	info := at.info
	if info.IsDir() {
		return nil, &fs.PathError{Op: "stat", Path: key, Err: fs.ErrNotExist}
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s", ErrNotRegular, info.Mode().Type())
	}
	return &driver.Attributes{ContentType: contentType, ModTime: info.ModTime(), Size: info.Size()}, nil
}

func (b *bucket) NewTypedWriter(context.Context, string, string, *driver.WriterOptions) (driver.Writer, error) {
	return nil, ErrReadOnly
}

func (b *bucket) Copy(context.Context, string, string, *driver.CopyOptions) error { return ErrReadOnly }

func (b *bucket) Delete(context.Context, string, *driver.DeleteOptions) error { return ErrReadOnly }

func (b *bucket) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", ErrReadOnly
}
