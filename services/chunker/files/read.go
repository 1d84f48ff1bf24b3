package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"gocloud.dev/blob"

	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/chunker/files/rootblob"
	"github.com/echomind/sync/services/internal/extract"
)

// item is the source.Item of a listed file. Its title is the file's name, unless the content has a title.
func (f *folder) item(one *file) source.Item {
	it := source.Item{
		ID: one.id, Title: path.Base(rootblob.Escape(one.path)), URL: fileURL(f.name, one.path), Version: one.token, Bytes: one.size,
		Read: func(ctx context.Context) (source.Content, error) { return f.read(ctx, one) },
	}
	switch {
	case one.err != nil:
		it.Unread = one.err.Error()
	case one.size > f.cfg.maxFileBytes():
		it.Unread = f.tooLarge(one.size).Error()
	}
	return it
}

// read reads and extracts a file. Its version is that of the opened file, so that the next sync sees a change during or after
// the reading.
func (f *folder) read(ctx context.Context, one *file) (source.Content, error) {
	r, err := f.bucket.NewReader(ctx, one.key, nil)
	if err != nil {
		return source.Content{}, unreadable(reasonOf(err))
	}
	defer r.Close()
	now := f.item(one)
	now.Version = token(r.Size(), r.ModTime())
	read := source.Content{Now: &now} // also beside an error
	switch {
	case r.Size() > f.cfg.maxFileBytes():
		return read, unreadable(f.tooLarge(r.Size()))
	case r.Size() > one.size: // room is reserved before reading
		one.size = r.Size()
		return read, &source.Grown{Bytes: one.size}
	}
	if err := f.waitOut(ctx, r.ModTime()); err != nil {
		return read, err
	}
	content, err := contentOf(r)
	if err != nil {
		return read, unreadable(reasonOf(err))
	}
	text, err := f.opts.Reader.Extract(ctx, content, extract.Hint{Name: path.Base(one.path), URL: now.URL})
	if err != nil {
		return read, unreadable(err)
	}
	text.Now = &now
	return text, nil
}

// unreadable says why a file was not read. A file that vanished between listing and reading counts as never listed.
func unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return source.ErrGone
	}
	return &source.Unreadable{Reason: err.Error(), Content: extract.OfContent(err)}
}

// contentOf reads at most the size that the file had when it was opened, however much it grows.
func contentOf(r *blob.Reader) ([]byte, error) {
	content := make([]byte, r.Size())
	n, err := io.ReadFull(r, content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // the file was truncated meanwhile
	}
	return content[:n], err
}

func (f *folder) tooLarge(size int64) error { return tooLarge(size, f.cfg.maxFileBytes()) }

func tooLarge(size, most int64) error {
	return fmt.Errorf("file too large: %d bytes, at most %d are read (max_file_bytes)", size, most)
}

// tick is longer than the steps of the kernel's clock for times of change.
const tick = 20 * time.Millisecond

// waitOut waits until the tick of a file's change is over: a second change of the same size in the same tick would otherwise
// have the same token, and never be seen.
func (f *folder) waitOut(ctx context.Context, modified time.Time) error {
	age := f.opts.Now().Sub(modified)
	if age < 0 || age >= tick {
		return nil
	}
	return repeat.Sleep(ctx, tick-age)
}
