package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

// Cause is why a child did not answer.
type Cause string

// Causes; they are the label of a metric.
const (
	// Memory: the request needs more memory than it may use.
	Memory Cause = "memory"
	// CPU: the request needs more computing time than it may use.
	CPU Cause = "cpu"
	// Late: there was no answer in time; the machine may be at fault.
	Late Cause = "late"
	// Broken: the task panicked, or the child died of another cause.
	Broken Cause = "broken"
	// Spent: the request needs more than a slice of computing time, and its sync has used up its time for such requests.
	Spent Cause = "spent"
	// Killed: the child was killed by another process, and so was the next one.
	Killed Cause = "killed"
	// pressed: another owner waits for the child's place. The request begins again, so nobody sees this cause.
	pressed Cause = "pressed"
)

// Failure is the error of a request that no child could answer. Its text is shown to people as the reason why a document is
// missing.
type Failure struct {
	Cause Cause
	text  string
}

func (f *Failure) Error() string { return "could not be read: " + f.text }

// OfRequest tells whether err is a *Failure that the same request would meet again.
func OfRequest(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.Cause != Late && f.Cause != Killed && f.Cause != Spent
}

// judge says why a child that has ended did not answer. A kill by another process says nothing about the request.
func (c *child) judge(memoryMB int, cpu time.Duration, asked error) *Failure {
	var late *deadline.Error
	switch {
	case errors.As(asked, &late):
		return &Failure{Late, late.Error()}
	case errors.Is(asked, errAnswer):
		return &Failure{Broken, asked.Error()}
	}
	state := c.cmd.ProcessState
	said := c.said.String()
	switch {
	case state.ExitCode() == exitMemory, outOfMemory(said):
		return &Failure{Memory, fmt.Sprintf("needs more than %d MB", memoryMB)}
	case state.ExitCode() == exitCPU:
		return &Failure{CPU, fmt.Sprintf("needs more than %s of computing", cpu)}
	case wasKilled(state):
		return &Failure{Killed, fmt.Sprintf("its reader was killed (%s)", state)}
	}
	text := fmt.Sprintf("its reader ended (%s)", state)
	if first, _, _ := strings.Cut(said, "\n"); first != "" {
		text += ": " + first
	}
	return &Failure{Broken, text}
}

func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGTERM)
}

// outOfMemory looks for the Go runtime's message: its exit code is the same for every cause of death.
func outOfMemory(said string) bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "stack overflow", "failed to create new OS thread", "pthread_create failed"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// lastWords keeps the beginning of a child's standard error: the Go runtime's message is there.
type lastWords struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const maxLastWords = 2 << 10

func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p[:min(len(p), maxLastWords-l.text.Len())])
	return len(p), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ToValidUTF8(l.text.String(), "\uFFFD")
}

// Limits are what one request may take.
type Limits struct {
	// MemoryMB is memory beyond that of a bare child, in units of 2^20 bytes.
	MemoryMB int
	// CPU is computing time of all threads. 0 = 30 s.
	CPU time.Duration
	// Slice is the computing time after which a request begins again in the slow lane. Ordinary documents need milliseconds. 0
	// = 2 s.
	Slice time.Duration
	// Slow is how much computing time the requests of one share may waste; afterwards they get slices only. 0 = 5 minutes.
	Slow time.Duration
	// Wall is elapsed time, however busy the machine is. 0 = 2 minutes.
	Wall time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.CPU == 0 {
		l.CPU = 30 * time.Second
	}
	if l.Slice == 0 {
		l.Slice = 2 * time.Second
	}
	l.Slice = min(l.Slice, l.CPU)
	if l.Slow == 0 {
		l.Slow = 5 * time.Minute
	}
	if l.Wall == 0 {
		l.Wall = 2 * time.Minute
	}
	return l
}

func (l Limits) memory() int64 { return int64(l.MemoryMB) << 20 }
