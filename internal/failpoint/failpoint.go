//go:build !chaos

// Package failpoint names the lines on which a process must be able to die without breaking a promise. In a normal build
// every call is empty and compiled away; built with the tag chaos, the fault harness can kill or freeze the process there.
package failpoint

// At marks a line on which the process may die.
func At(string) {}

// Err returns nil, unless the harness has armed it: then the call to another process that it stands for fails.
func Err(string) error { return nil }

// Poison marks a line on which certain input kills the process, in the harness only.
func Poison(string) {}
