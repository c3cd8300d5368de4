//go:build !linux

package cluster

import "syscall"

// diesWithParent changes nothing on systems without such a setting. The process then ends when
// its connection to the first one ends.
func diesWithParent() *syscall.SysProcAttr { return nil }
