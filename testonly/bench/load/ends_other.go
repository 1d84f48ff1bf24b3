//go:build !linux

package load

import "syscall"

// endsWithUs is for Linux alone.
func endsWithUs() *syscall.SysProcAttr { return nil }
