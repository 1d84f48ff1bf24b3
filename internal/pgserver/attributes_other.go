//go:build !linux

package pgserver

import "syscall"

// attributes cannot tie the server's life to ours here; the next start stops a server that was left behind.
func (id identity) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: id.credential(), Setpgid: true}
}
