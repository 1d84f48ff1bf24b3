package confine

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// A request is its length, the length of the task's name, that name, and the body; an answer is its length, flags, and
// the body. Lengths are 32 bits, most significant first, and count what follows them.
const (
	lengthBytes = 4
	// bufferBytes is what a pipe of Linux holds.
	bufferBytes = 64 << 10
	// maxNameBytes is what one byte can say.
	maxNameBytes = 255
)

// Flags of an answer.
const (
	// flagRetire: the child should be replaced.
	flagRetire = 1 << iota
	// flagBroken: the task panicked, and the body is the panic's text.
	flagBroken
)

// requestOf is the frame of a request.
func requestOf(task string, parts [][]byte) ([]byte, error) {
	size := 1 + len(task)
	for _, p := range parts {
		size += len(p)
	}
	if len(task) > maxNameBytes || size > maxFrameBytes {
		return nil, fmt.Errorf("confine: a request of %d bytes to %q is too large; at most %d are sent", size, task, maxFrameBytes)
	}
	frame := make([]byte, 0, lengthBytes+size)
	frame = binary.BigEndian.AppendUint32(frame, uint32(size))
	frame = append(frame, byte(len(task)))
	frame = append(frame, task...)
	for _, p := range parts {
		frame = append(frame, p...)
	}
	return frame, nil
}

// maxFrameBytes bounds what is sent either way.
const maxFrameBytes = 1 << 30

// readRequest uses buffer where it is large enough.
func readRequest(in *bufio.Reader, buffer []byte) (task string, body []byte, err error) {
	var head [lengthBytes + 1]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", nil, err
	}
	size, name := int(binary.BigEndian.Uint32(head[:]))-1, int(head[lengthBytes])
	if size < name || size > maxFrameBytes {
		return "", nil, fmt.Errorf("confine: a request of %d bytes with a name of %d", size, name)
	}
	if cap(buffer) < size {
		buffer = make([]byte, size)
	}
	buffer = buffer[:size]
	if _, err := io.ReadFull(in, buffer); err != nil {
		return "", nil, fmt.Errorf("read a request: %w", err)
	}
	return string(buffer[:name]), buffer[name:], nil
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

// readAnswer refuses one of more than limit bytes.
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
