//go:build unix

package pytorch

import (
	"os/exec"
	"syscall"
	"time"
)

// group makes a command and all that it starts one group, which ends with it.
func group(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
}
