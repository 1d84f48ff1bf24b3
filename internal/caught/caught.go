// Package caught turns a panic into an error. A panic that its own goroutine does not recover from ends the process, and all
// syncs in it. Goroutines that handle content from outside do so within Do.
package caught

import (
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

// Do returns the error of f, or a *Panic.
func Do(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{value, culprit()}
		}
	}()
	return f()
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
