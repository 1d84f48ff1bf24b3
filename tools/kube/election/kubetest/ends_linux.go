package kubetest

import "syscall"

// EndsWithUs lets the kernel end a process where the tests are killed.
func EndsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
