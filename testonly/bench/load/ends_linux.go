package load

import "syscall"

// endsWithUs has the kernel kill the API when this program dies, even by kill -9. A Ctrl-C at the terminal does not reach it: it is stopped in its turn.
func endsWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
