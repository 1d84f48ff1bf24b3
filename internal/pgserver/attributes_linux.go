package pgserver

import "syscall"

// attributes let the kernel end the server (SIGQUIT: immediate shutdown) when we die, even by kill -9. The kernel
// watches the thread that forked, not the process: see spawn.
func (id identity) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: id.credential(), Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
