package pgserver

import "syscall"

// attributes have the kernel end the server (SIGQUIT: immediate shutdown) when this process dies, even by kill -9. The kernel
// watches the thread that forked, not the process: see spawn.
func (id identity) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: id.credential(), Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
