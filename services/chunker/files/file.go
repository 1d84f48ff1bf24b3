package files

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"gocloud.dev/blob"

	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files/rootblob"
)

// MaxSourceIDBytes bounds source ids. A longer path is cut, and a hash of the whole path put at its end.
const MaxSourceIDBytes = 2048

// wholeIDBytes is the length up to which a source id is the beginning of its path.
const wholeIDBytes = MaxSourceIDBytes - 1 - 2*sha256.Size - (utf8.UTFMax - 1)

// file is one listed entry: a file, or a folder that could not be read.
type file struct {
	id    string // the source id
	key   string // the key in the bucket
	path  string // relative, slash-separated, not escaped
	size  int64
	token string
	err   error // why it cannot be read, known from the listing
	isDir bool  // a folder that could not be read; its key ends in a slash
}

func newFile(object *blob.ListObject) file {
	f := file{
		id: sourceID(object.Key), key: object.Key, path: object.Key, size: object.Size,
		token: token(object.Size, object.ModTime), isDir: strings.HasSuffix(object.Key, "/"),
	}
	var entry rootblob.Entry
	if !object.As(&entry) {
		return f
	}
	f.path = entry.Path
	if entry.Err != nil {
		f.err = reasonOf(entry.Err)
	}
	switch kind := entry.Mode; {
	case errors.Is(entry.Err, rootblob.ErrPrivate):
		f.err = rootblob.ErrPrivate
	case f.isDir:
		f.err = fmt.Errorf("folder cannot be read: %w", reasonOf(entry.Err))
	case kind&fs.ModeSymlink != 0 && entry.Err != nil:
		f.err = fmt.Errorf("symbolic link is not followed: %w", reasonOf(entry.Err))
	case kind&fs.ModeSymlink == 0 && !kind.IsRegular():
		f.err = fmt.Errorf("%w: it is a %s", rootblob.ErrNotRegular, rootblob.Kind(kind))
	}
	return f
}

// token is the version token of a file.
func token(size int64, modified time.Time) string {
	return fmt.Sprintf("%d-%d", size, modified.UnixNano())
}

func sourceID(key string) string {
	if len(key) <= MaxSourceIDBytes {
		return key
	}
	hash := fmt.Sprintf("~%x", sha256.Sum256([]byte(key)))
	return line.Cut(key, MaxSourceIDBytes-len(hash)) + hash
}

// fileURL is the URL of a file; empty where it would be longer than the stored bound, since a part of a URL leads elsewhere.
func fileURL(folder, path string) string {
	u := url.URL{Scheme: "file", Path: strings.TrimSuffix(folder, "/") + "/" + path}
	link := u.String()
	if len(link) > worker.MaxURLBytes {
		return ""
	}
	return link
}
