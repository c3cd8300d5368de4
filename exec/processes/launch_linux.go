package processes

import "syscall"

// diesWithParent makes the system tell a process to end when the thread that has
// started it does.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
