package election

import "syscall"

// endsWithUs lets the kernel end a server where the tests are killed.
func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
