package pgserver

import "syscall"

// dieWithParent makes the kernel send SIGQUIT, which is Postgres's immediate shutdown, when the thread that started
// the server ends: that thread is kept for as long as the server runs.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
