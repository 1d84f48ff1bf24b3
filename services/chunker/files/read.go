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

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/chunker/files/rootblob"
	"github.com/echomind/sync/services/internal/extract"
)

// item is a listed file as the engine knows it. Its title is the file's name, unless the content has one.
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

// read reads and extracts a file. Its version is that of the file as it was opened, so that a change during or after the reading shows at
// the next sync.
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
	case r.Size() > one.size: // room is for what is read
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

// unreadable says why a file was not read. One that vanished between listing and reading is as if it had never been listed.
func unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return source.ErrGone
	}
	return &source.Unreadable{Reason: err.Error(), Content: extract.OfContent(err)}
}

// contentOf reads as much as the file had when it was opened, however much it grows.
func contentOf(r *blob.Reader) ([]byte, error) {
	content := make([]byte, r.Size())
	n, err := io.ReadFull(r, content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // it was cut meanwhile
	}
	return content[:n], err
}

func (f *folder) tooLarge(size int64) error {
	return fmt.Errorf("file too large: %d bytes, at most %d are read (max_file_bytes)", size, f.cfg.maxFileBytes())
}

// tick is longer than the kernel's clock for times of change may stand still.
const tick = 20 * time.Millisecond

// waitOut waits out the tick in which a file was changed: a second change of the same size in the same tick
// would otherwise leave the same token, and never be seen.
func (f *folder) waitOut(ctx context.Context, modified time.Time) error {
	age := f.opts.Now().Sub(modified)
	if age < 0 || age >= tick {
		return nil
	}
	return pause(ctx, tick-age)
}
