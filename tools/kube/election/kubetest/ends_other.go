//go:build !linux

package kubetest

import "syscall"

// EndsWithUs is for Linux alone.
func EndsWithUs() *syscall.SysProcAttr { return nil }
