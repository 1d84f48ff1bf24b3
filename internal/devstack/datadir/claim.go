package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// claimPatience is longer than a call of Holder at the same moment, which holds the lock for microseconds.
	claimPatience = 300 * time.Millisecond
	claimRetry    = 5 * time.Millisecond
)

// HeldError says that another process (or another part of this one) holds the claim.
type HeldError struct {
	// Path is the path of the lock file.
	Path string
	// PID is the holder's process; 0 = it has not written it.
	PID int
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is held by another process", e.Path)
	}
	return fmt.Sprintf("%s is held by process %d", e.Path, e.PID)
}

// Claim is an exclusive lock that the kernel takes back when its process dies, however it dies.
type Claim struct{ file *os.File }

// Take claims the lock file at path, which it creates, and writes the pid of this process into it. It returns a
// *HeldError where the claim is held already.
func Take(path string) (*Claim, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := lockExclusive(file); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = &HeldError{Path: path, PID: holderPID(file)}
		}
		return nil, errors.Join(err, file.Close())
	}
	if err := writePID(file); err != nil {
		return nil, errors.Join(fmt.Errorf("name the holder: %w", err), file.Close())
	}
	return &Claim{file: file}, nil
}

// Release releases the claim. The file stays: removing it would let two processes lock two files of one name.
func (c *Claim) Release() error {
	if c == nil {
		return nil
	}
	if err := errors.Join(c.file.Truncate(0), c.file.Close()); err != nil {
		return fmt.Errorf("release the lock: %w", err)
	}
	return nil
}

// Holder returns the pid of the process that holds the claim at path, and whether any process holds it.
func Holder(path string) (pid int, held bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("open the lock: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	err = Flock(file, syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return holderPID(file), true, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("ask for the lock: %w", err)
	}
	return 0, false, nil
}

// Flock is flock(2), repeated where a signal interrupts it.
func Flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func lockExclusive(file *os.File) error {
	for until := time.Now().Add(claimPatience); ; {
		err := Flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(until) {
			return err
		}
		time.Sleep(claimRetry)
	}
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holderPID(file *os.File) int {
	content, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	return pid
}
