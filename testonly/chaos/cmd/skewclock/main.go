// Skewclock writes a build overlay of Go's own package time, with which a program's clock is off by as many seconds as
// CHAOS_CLOCK_SECONDS says, or the file that CHAOS_CLOCK_FILE names, which may be written while the program runs: nothing else
// shifts the wall clock of one process, since Go asks the kernel directly.
//
//	skewclock FOLDER; go build -overlay FOLDER/overlay.json ...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	reading = "sec, nsec, mono := runtimeNow()"
	skewed  = reading + "\n\tsec += clockSkew.Load()"
	skew    = `package time

import (
	"sync/atomic"
	"syscall"
)

// clockSkew is in seconds.
var clockSkew atomic.Int64

func init() {
	if text, set := syscall.Getenv("CHAOS_CLOCK_SECONDS"); set {
		clockSkew.Store(skewOf([]byte(text)))
	}
	if file, set := syscall.Getenv("CHAOS_CLOCK_FILE"); set {
		go followClock(file)
	}
}

// followClock reads again and again by how much the clock is to be off. A file that is not there changes nothing.
func followClock(file string) {
	text := make([]byte, 32)
	for ; ; Sleep(50 * Millisecond) {
		fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		n, err := syscall.Read(fd, text)
		syscall.Close(fd)
		if err == nil {
			clockSkew.Store(skewOf(text[:max(n, 0)]))
		}
	}
}

func skewOf(text []byte) (seconds int64) {
	sign := int64(1)
	for i, digit := range text {
		if i == 0 && digit == '-' {
			sign = -1
			continue
		}
		seconds = 10*seconds + int64(digit-'0')
	}
	return sign * seconds
}
`
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "skewclock:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: skewclock FOLDER")
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("ask where Go is: %w", err)
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return err
	}
	// Now, and whatever else reads the clock there.
	if !strings.Contains(string(source), reading) {
		return fmt.Errorf("time.go has no line %q: this Go reads its clock elsewhere", reading)
	}
	replaced := map[string]string{}
	for name, text := range map[string]string{
		"time.go": strings.ReplaceAll(string(source), reading, skewed), "clockskew.go": skew,
	} {
		file := filepath.Join(dir, name+".overlay")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		replaced[filepath.Join(std, name)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644)
}
