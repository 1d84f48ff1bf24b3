//go:build !linux

package election

import "syscall"

func endsWithUs() *syscall.SysProcAttr { return nil }
