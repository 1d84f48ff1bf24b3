package rootblob

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// maxLinks bounds the links on the way to one entry, as the kernel does.
const maxLinks = 40

var (
	errEscapes = errors.New("path escapes from parent") // the text of os.Root's error
	errChanged = errors.New("it was replaced while it was opened; it is read by the next sync")
)

// Escapes tells whether an error says that a path leads out of its root.
func Escapes(err error) bool { return errors.Is(err, errEscapes) }

// place is the real place of an entry: in folder, under name, which is no link.
type place struct {
	folder *os.Root
	name   string
	info   fs.FileInfo
	opened []*os.Root
}

func (p *place) close() {
	for _, r := range p.opened {
		_ = r.Close()
	}
}

// Descend opens a folder below root. It fails with ErrPrivate where the folder, or one on the way, is private.
func Descend(root *os.Root, name string, private *Private) (*os.Root, error) {
	at, err := locate(root, name, private)
	if err != nil {
		return nil, err
	}
	defer at.close()
	if !at.info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return enter(at.folder, at.name, at.info)
}

// locate goes to an entry folder by folder and checks each open folder: whatever is renamed meanwhile, and wherever links lead,
// none of them is private, or out of root.
func locate(root *os.Root, name string, private *Private) (_ *place, err error) {
	at := &place{folder: root, name: "."}
	defer func() {
		if err != nil {
			at.close()
		}
	}()
	wrong := func(err error) (*place, error) { return nil, &fs.PathError{Op: "open", Path: name, Err: err} }
	steps := strings.Split(name, "/")
	for links := 0; len(steps) > 0; {
		step := steps[0]
		steps = steps[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			if len(at.opened) == 0 {
				return wrong(errEscapes)
			}
			at.up(root)
			continue
		}
		info, err := at.folder.Lstat(step)
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := at.folder.Readlink(step)
			switch links++; {
			case err != nil:
				return nil, err
			case path.IsAbs(target):
				return wrong(errEscapes)
			case links > maxLinks:
				return wrong(syscall.ELOOP)
			}
			steps = append(strings.Split(target, "/"), steps...)
			continue
		}
		if err := private.refuses(step, info, true); err != nil {
			return nil, err
		}
		if !info.IsDir() {
			if len(steps) > 0 {
				return wrong(syscall.ENOTDIR)
			}
			at.name, at.info = step, info
			return at, nil
		}
		sub, err := enter(at.folder, step, info)
		if err != nil {
			return nil, err
		}
		at.folder, at.opened = sub, append(at.opened, sub)
	}
	info, err := at.folder.Stat(".")
	if err != nil {
		return nil, err
	}
	at.name, at.info = ".", info
	return at, nil
}

// up leaves the folder that was entered last.
func (p *place) up(root *os.Root) {
	last := len(p.opened) - 1
	_ = p.opened[last].Close()
	if p.opened, p.folder = p.opened[:last], root; last > 0 {
		p.folder = p.opened[last-1]
	}
}

// enter opens a checked folder, and no other that has taken its name since.
func enter(in *os.Root, name string, looked fs.FileInfo) (*os.Root, error) {
	sub, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	info, err := sub.Stat(".")
	switch {
	case err == nil && !os.SameFile(info, looked):
		err = errChanged
	case err == nil && isKernels(sub):
		err = ErrPrivate
	}
	if err != nil {
		_ = sub.Close()
		return nil, err
	}
	return sub, nil
}

// isKernels tells whether a folder is in one of the kernel's file systems.
func isKernels(folder *os.Root) bool {
	opened, err := folder.Open(".")
	if err != nil {
		return false
	}
	defer opened.Close()
	return ofKernel(opened)
}

const readOnly = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// open opens a file without blocking: a pipe without a writer would block for ever. A name that is no link, in a folder without
// private entries below it, needs no second check of the folders on its path: no link there can lead to a private entry.
func (b *bucket) open(name string) (*os.File, error) {
	info, err := b.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if b.holdsPrivate || info.Mode()&fs.ModeSymlink != 0 {
		at, err := locate(b.root, name, b.private)
		if err != nil {
			return nil, err
		}
		defer at.close()
		return openSame(at.folder, at.name, at.info)
	}
	if err := b.private.refuses(path.Base(name), info, true); err != nil {
		return nil, err
	}
	return openSame(b.root, name, info)
}

// openSame opens a checked file, and no other that has taken its name since.
func openSame(in *os.Root, name string, looked fs.FileInfo) (*os.File, error) {
	file, err := in.OpenFile(name, readOnly, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !os.SameFile(info, looked) {
		err = errChanged
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
