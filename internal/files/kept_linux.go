package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// checkKept refuses folders of the kernel, such as /proc, which do not keep files even if they are
// writable.
func checkKept(folder string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err == nil && (s.Type == unix.PROC_SUPER_MAGIC || s.Type == unix.SYSFS_MAGIC) {
		return errors.New("the kernel's folders keep no files")
	}
	return nil
}
