package rootblob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gocloud.dev/blob/driver"
)

// contentType is the type of every file: a folder knows none.
const contentType = "application/octet-stream"

type reader struct {
	file *os.File
	from io.Reader
	info fs.FileInfo
}

// NewRangeReader opens a file and checks the open file, not what the name meant before.
func (b *bucket) NewRangeReader(ctx context.Context, key string, offset, length int64, opts *driver.ReaderOptions) (driver.Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := Unescape(key)
	if err != nil {
		return nil, err
	}
	file, err := b.open(name)
	if err != nil {
		return nil, err
	}
	r, err := newReader(file, offset, length)
	if err == nil && opts.BeforeRead != nil {
		err = opts.BeforeRead(r.As)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return r, nil
}

func newReader(file *os.File, offset, length int64) (*reader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s", ErrNotRegular, Kind(info.Mode()))
	}
	if ofKernel(file) {
		return nil, ErrPrivate
	}
	if offset > 0 {
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return nil, err
		}
	}
	r := &reader{file: file, from: file, info: info}
	if length >= 0 {
		r.from = io.LimitReader(file, length)
	}
	return r, nil
}

func (r *reader) Read(p []byte) (int, error) { return r.from.Read(p) }

func (r *reader) Close() error { return r.file.Close() }

func (r *reader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ContentType: contentType, ModTime: r.info.ModTime(), Size: r.info.Size()}
}

// As sets a **os.File to the open file.
func (r *reader) As(i any) bool { return as(i, r.file) }

// Kind names the type of an entry, for people.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode&fs.ModeDevice != 0:
		return "device"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "special file"
}
