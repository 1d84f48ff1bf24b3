// Package caught turns a panic into an error. A panic that its own goroutine does not recover from ends the process, and all
// syncs in it. Goroutines that handle content from outside do so within Do.
package caught

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Panic is a panic that was caught.
type Panic struct {
	Value any
	// At is the file and line of the panic.
	At string
}

func (p *Panic) Error() string {
	return fmt.Sprintf("reading it panicked at %s: %v; report this with what is read", p.At, p.Value)
}

// ErrGoexit says that what was called has ended its goroutine.
var ErrGoexit = errors.New("reading it ended its goroutine (runtime.Goexit); report this with what is read")

// Do calls f in a goroutine of its own and returns its error, a *Panic, or ErrGoexit.
func Do(f func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() {
			if value := recover(); value != nil {
				err = &Panic{value, culprit()}
			}
			ended <- err
		}()
		err = f()
	}()
	return <-ended
}

// culprit is the first caller below the panic that is not in the runtime.
func culprit() string {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	for panicked := false; ; {
		frame, more := frames.Next()
		isRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicked && !isRuntime {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		panicked = panicked || frame.Function == "runtime.gopanic"
		if !more {
			return "an unknown place"
		}
	}
}
