package cluster

import "syscall"

// diesWithParent makes the system end a process when the thread that has started it ends.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
