//go:build !linux

package pgserver

import "syscall"

// dieWithParent does nothing here: a server that outlives a killed parent is stopped at the next start.
func dieWithParent(*syscall.SysProcAttr) {}
