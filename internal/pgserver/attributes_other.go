//go:build !linux

package pgserver

import "syscall"

// attributes cannot bind the server's life to ours on these systems; the next start stops a leftover server.
func (id identity) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: id.credential(), Setpgid: true}
}
