//go:build chaos

// Package failpoint names the lines on which a process must be able to die without breaking a promise. In a normal build
// every call is empty and compiled away; built with the tag chaos, the fault harness can kill or freeze the process there.
//
// The harness arms a point by a file of its name in the folder that ECHOMIND_FAILPOINTS names. The first process that reaches
// the point removes the file, so that one arming hits one process, and does what the file says: "kill", or "stop" (SIGSTOP),
// each with an optional delay as in "kill 20ms". A file that says "error" stays: calls fail while it exists.
package failpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// errArmed is what an armed Err returns.
var errArmed = errors.New("refused by the fault harness")

var dir = os.Getenv("ECHOMIND_FAILPOINTS")

// At marks a line on which the process may die.
func At(name string) {
	if dir == "" {
		return
	}
	armed := filepath.Join(dir, name)
	taken := fmt.Sprintf("%s.taken.%d", armed, os.Getpid())
	if os.Rename(armed, taken) != nil {
		return
	}
	order, _ := os.ReadFile(taken)
	word, delay, _ := strings.Cut(strings.TrimSpace(string(order)), " ")
	if d, err := time.ParseDuration(delay); err == nil {
		time.Sleep(d)
	}
	signal := syscall.SIGKILL
	if word == "stop" {
		signal = syscall.SIGSTOP
	}
	_ = syscall.Kill(os.Getpid(), signal)
	if signal == syscall.SIGKILL {
		select {}
	}
}

// Err returns nil, unless the harness has armed it: then the call to another process that it stands for fails.
func Err(name string) error {
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, errArmed)
}

// Poison marks a line on which certain input kills the process, in the harness only.
func Poison(text string) {
	if strings.Contains(text, PoisonText) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
