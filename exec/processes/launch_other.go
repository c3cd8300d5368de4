//go:build !linux

package processes

import "syscall"

// diesWithParent changes nothing where the system knows no such thing. The process
// then ends when it finds the connection to the first one ended.
func diesWithParent() *syscall.SysProcAttr { return nil }
