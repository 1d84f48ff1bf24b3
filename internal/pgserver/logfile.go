package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	logName = "postgres.log"
	// logLimit is the size in bytes above which a start puts the log aside; one old log is kept.
	logLimit = 16 << 20
	// Errors have the end of the log: at most this many bytes and lines.
	tailBytes = 8 << 10
	tailLines = 20
)

// openLog opens the server's log. The server writes to the file itself, so that its last messages survive this process.
func openLog(dir string) (*os.File, error) {
	path := filepath.Join(dir, logName)
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("put the full log aside: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	return file, nil
}

// tail returns the end of what the server wrote after offset.
func tail(dir string, offset int64) string {
	path := filepath.Join(dir, logName)
	content, err := readEnd(path, offset)
	if err != nil {
		return fmt.Sprintf("(its log %s cannot be read: %v)", path, err)
	}
	return fmt.Sprintf("the end of %s:\n%s", path, lastLines(content))
}

func readEnd(path string, offset int64) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(file, max(offset, info.Size()-tailBytes), tailBytes))
}

func lastLines(content []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n"))
}
