package rootblob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"gocloud.dev/blob/driver"
)

const (
	// maxDepth bounds the folders that are open at the same time.
	maxDepth = 200
	// maxPathBytes bounds paths: no program opens a longer one by its name. A key may be three times as long.
	maxPathBytes = 4096
)

// item is one name in a folder. It does not contain its key, which may be twenty times as long.
type item struct {
	name    string
	escaped string
	mode    fs.FileMode
}

// key is the key of an item in the folder with this key; a folder's key ends in a slash, so that names sort like the keys under
// them.
func (i item) key(folder string) string {
	if i.mode.IsDir() {
		return folder + i.escaped + "/"
	}
	return folder + i.escaped
}

// level is one open folder.
type level struct {
	root  *os.Root
	path  string // with a slash at its end, except the first
	key   string
	names names
	bytes int // of all its names
}

// walk walks a tree depth first, which with these names is the order of keys.
type walk struct {
	bucket            *bucket
	prefix, delimiter string
	after             string
	listing           *Listing
	levels            []level
	bytes             int // of all names in levels
	token             string
	rolled            string // the last key that the delimiter cut
}

func newWalk(ctx context.Context, b *bucket, prefix, delimiter, after string, listing *Listing) (*walk, error) {
	w := &walk{bucket: b, prefix: prefix, delimiter: delimiter, after: after, listing: listing}
	if delimiter != "" && strings.HasSuffix(after, delimiter) {
		w.rolled = after
	}
	own, err := b.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	if err := w.enter(ctx, own, "", ""); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *walk) close() {
	for _, l := range w.levels {
		_ = l.root.Close()
	}
	w.levels = nil
}

// enter reads the names of a folder and takes ownership of root.
func (w *walk) enter(ctx context.Context, root *os.Root, path, key string) error {
	names, err := w.read(ctx, root, path, key)
	if err != nil {
		_ = root.Close()
		return err
	}
	bytes := names.bytes()
	w.bytes += bytes
	w.levels = append(w.levels, level{root: root, path: path, key: key, names: names, bytes: bytes})
	return nil
}

// namesAtOnce is how many names of a folder are read between two checks of the context.
const namesAtOnce = 1000

// read keeps only entries of a folder that may be listed.
func (w *walk) read(ctx context.Context, root *os.Root, path, key string) (all names, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return names{}, err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(namesAtOnce)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return names{}, err
		}
		if err := ctx.Err(); err != nil {
			return names{}, err
		}
		w.take(&all, entries, path, key)
		if most := w.listing.Most; most > 0 && len(all.at) > most {
			return names{}, fmt.Errorf("%w: more than %d in one folder", ErrTooMany, most)
		}
		if most := w.listing.MostBytes; most > 0 && w.bytes+all.bytes() > most {
			return names{}, fmt.Errorf("%w: they take more than %d bytes", ErrNames, most)
		}
	}
	all.sort()
	return all, nil
}

// take adds the entries that may be listed.
func (w *walk) take(all *names, entries []fs.DirEntry, path, key string) {
	for _, e := range entries {
		it := item{name: e.Name(), escaped: Escape(e.Name()), mode: e.Type()}
		own := it.key(key)
		// A folder whose keys may come after the token is needed even if its own key does not.
		if own <= w.after && !(it.mode.IsDir() && strings.HasPrefix(w.after, own) && w.rolled != own) {
			continue
		}
		// So is a folder below which keys can have the prefix.
		if it.mode.IsDir() && strings.HasPrefix(w.prefix, own) || strings.HasPrefix(own, w.prefix) {
			if it.mode.IsDir() || w.listing.Takes == nil || w.listing.Takes(path+it.name) {
				all.add(it)
			}
		}
	}
}

// next returns the next object, or nil at the end.
func (w *walk) next(ctx context.Context) (*driver.ListObject, error) {
	for len(w.levels) > 0 {
		top := &w.levels[len(w.levels)-1]
		it, ok := top.names.next()
		if !ok {
			_ = top.root.Close()
			w.bytes -= top.bytes
			w.levels = w.levels[:len(w.levels)-1]
			continue
		}
		object, err := w.visit(ctx, top, it)
		if err != nil || object != nil {
			return object, err
		}
	}
	return nil, nil
}

func (w *walk) visit(ctx context.Context, in *level, it item) (*driver.ListObject, error) {
	path, key := in.path+it.name, it.key(in.key)
	if it.mode.IsDir() && w.listing.Skip != nil && w.listing.Skip(path) {
		return nil, nil
	}
	if cut, ok := w.cut(key); ok {
		return w.roll(cut), nil
	}
	if len(path) > maxPathBytes {
		return failed(key, Entry{Path: path, Mode: it.mode, Err: ErrTooLong}), nil
	}
	if it.mode.IsDir() {
		return w.descend(ctx, in.root, it, path, key)
	}
	info, err := in.root.Lstat(it.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return failed(key, Entry{Path: path, Mode: it.mode, Err: err}), nil
	}
	entry := Entry{Path: path, Mode: info.Mode()}
	if entry.Err = w.bucket.private.refuses(it.name, info, false); entry.Err != nil {
		return failed(key, entry), nil
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return w.link(key, entry), nil
	}
	return object(key, info, entry), nil
}

// link describes the target of a link to a regular file; for every other link it says why it is not followed. The link is
// resolved from the tree's root: a link that leads out of its own folder may still stay inside the tree.
func (w *walk) link(key string, entry Entry) *driver.ListObject {
	at, err := locate(w.bucket.root, entry.Path, w.bucket.private)
	if err != nil {
		entry.Err = err
		return failed(key, entry)
	}
	defer at.close()
	switch info := at.info; {
	case info.IsDir():
		entry.Err = fmt.Errorf("%w: a link to a folder", ErrNotRegular)
	case !info.Mode().IsRegular():
		entry.Err = fmt.Errorf("%w: a link to a %s", ErrNotRegular, Kind(info.Mode()))
	default:
		return object(key, info, entry)
	}
	return failed(key, entry)
}

func (w *walk) descend(ctx context.Context, in *os.Root, it item, path, key string) (*driver.ListObject, error) {
	err := fmt.Errorf("folders nest more than %d levels deep", maxDepth)
	if len(w.levels) < maxDepth {
		var sub *os.Root
		if sub, err = in.OpenRoot(it.name); err == nil {
			if w.private(sub, it.name) {
				_ = sub.Close()
				return failed(strings.TrimSuffix(key, "/"), Entry{Path: path, Mode: it.mode, Err: ErrPrivate}), nil
			}
			err = w.enter(ctx, sub, path+"/", key)
		}
	}
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, ErrTooMany) || errors.Is(err, ErrNames) || ctx.Err() != nil:
		return nil, err
	}
	return failed(key, Entry{Path: path, Mode: it.mode, Err: err}), nil
}

// private checks an open folder, so that it cannot be another one.
func (w *walk) private(sub *os.Root, name string) bool {
	info, err := sub.Stat(".")
	return err == nil && w.bucket.private.refuses(name, info, false) != nil || isKernels(sub)
}

// cut is key up to the first delimiter after the prefix.
func (w *walk) cut(key string) (string, bool) {
	if w.delimiter == "" || !strings.HasPrefix(key, w.prefix) {
		return "", false
	}
	i := strings.Index(key[len(w.prefix):], w.delimiter)
	if i < 0 {
		return "", false
	}
	return key[:len(w.prefix)+i+len(w.delimiter)], true
}

// roll returns each "directory" of the delimiter once.
func (w *walk) roll(key string) *driver.ListObject {
	if key == w.rolled {
		return nil
	}
	w.rolled = key
	return &driver.ListObject{Key: key, IsDir: true}
}

func object(key string, info fs.FileInfo, entry Entry) *driver.ListObject {
	return &driver.ListObject{Key: key, Size: info.Size(), ModTime: info.ModTime(), AsFunc: func(i any) bool { return as(i, entry) }}
}

func failed(key string, entry Entry) *driver.ListObject {
	return &driver.ListObject{Key: key, AsFunc: func(i any) bool { return as(i, entry) }}
}
