//go:build !chaos

// Package failpoint names the lines on which a process must be able to die without breaking a promise. In a normal build
// every call is empty and compiled away; built with the tag chaos, the fault harness can kill or freeze the process there.
package failpoint

// At is a line on which the process may die.
func At(string) {}

// Err is a call to the outside that the harness can make fail: it returns nil unless told otherwise.
func Err(string) error { return nil }

// Poison is a line that input can kill the process on, in the harness only.
func Poison(string) {}
