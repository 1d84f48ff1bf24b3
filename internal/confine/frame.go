package confine

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"
)

// A request is its length, its computing time in milliseconds, the length of the task's name, the name, and the body; an answer
// is its length, flags, and the body. Lengths and milliseconds have 32 bits, most significant first; a length counts the bytes
// after it.
const (
	lengthBytes = 4
	// headBytes is the size of a request before its task's name.
	headBytes = lengthBytes + 4 + 1
	// bufferBytes is the size of a pipe's buffer on Linux.
	bufferBytes = 64 << 10
	// maxNameBytes is the largest length that one byte holds.
	maxNameBytes = 255
)

// Flags of an answer.
const (
	// flagRetire: the child should be replaced.
	flagRetire = 1 << iota
	// flagBroken: the task panicked, and the body is the panic's text.
	flagBroken
)

// request is what a child is asked to do. Its parts are sent one by one: copies for all waiting requests would be as large as
// the content itself.
type request struct {
	task  string
	parts [][]byte
	cpu   time.Duration
	most  int64                     // the largest size of its answer, in bytes
	read  func(answer string) error // checks the answer
}

func (r request) size() int {
	size := headBytes - lengthBytes + len(r.task)
	for _, p := range r.parts {
		size += len(p)
	}
	return size
}

func (r request) check() error {
	if size := r.size(); len(r.task) > maxNameBytes || size > maxFrameBytes {
		return fmt.Errorf("confine: a request of %d bytes to %q is too large; at most %d are sent", size, r.task, maxFrameBytes)
	}
	return nil
}

func (r request) write(to io.Writer) error {
	first := make([]byte, 0, bufferBytes)
	first = binary.BigEndian.AppendUint32(first, uint32(r.size()))
	first = binary.BigEndian.AppendUint32(first, uint32(r.cpu.Milliseconds()))
	first = append(first, byte(len(r.task)))
	first = append(first, r.task...)
	for _, p := range r.parts {
		// A small body is sent in one write with its head.
		n := min(len(p), cap(first)-len(first))
		first = append(first, p[:n]...)
		if n == len(p) {
			continue
		}
		if _, err := to.Write(first); err != nil {
			return err
		}
		if _, err := to.Write(p[n:]); err != nil {
			return err
		}
		first = first[:0]
	}
	_, err := to.Write(first)
	return err
}

// maxFrameBytes bounds requests and answers.
const maxFrameBytes = 1 << 30

// readRequest reads into buffer where it is large enough.
func readRequest(in *bufio.Reader, buffer []byte) (task string, body []byte, cpu time.Duration, err error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", nil, 0, err
	}
	size, name := int(binary.BigEndian.Uint32(head[:]))-(headBytes-lengthBytes), int(head[headBytes-1])
	if size < name || size > maxFrameBytes {
		return "", nil, 0, fmt.Errorf("confine: a request of %d bytes with a name of %d", size, name)
	}
	cpu = time.Duration(binary.BigEndian.Uint32(head[lengthBytes:])) * time.Millisecond
	if cap(buffer) < size {
		buffer = make([]byte, size)
	}
	buffer = buffer[:size]
	if _, err := io.ReadFull(in, buffer); err != nil {
		return "", nil, 0, fmt.Errorf("read a request: %w", err)
	}
	return string(buffer[:name]), buffer[name:], cpu, nil
}

func writeAnswer(out io.Writer, flags byte, body []byte) error {
	frame := make([]byte, 0, lengthBytes+1+min(len(body), bufferBytes))
	frame = append(binary.BigEndian.AppendUint32(frame, uint32(1+len(body))), flags)
	if len(body) <= bufferBytes {
		_, err := out.Write(append(frame, body...))
		return err
	}
	// A second copy of a large answer may be more than this process has left.
	if _, err := out.Write(frame); err != nil {
		return err
	}
	_, err := out.Write(body)
	return err
}

// readAnswer refuses an answer of more than limit bytes.
func readAnswer(in *bufio.Reader, limit int64) (flags byte, body string, err error) {
	var head [lengthBytes + 1]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, "", err
	}
	size := int64(binary.BigEndian.Uint32(head[:])) - 1
	if size < 0 || size > limit {
		return 0, "", fmt.Errorf("%w: an answer of %d bytes, at most %d are taken", errAnswer, size, limit)
	}
	var text strings.Builder
	text.Grow(int(size))
	if _, err := io.CopyN(&text, in, size); err != nil {
		return 0, "", fmt.Errorf("read an answer: %w", err)
	}
	return head[lengthBytes], text.String(), nil
}
