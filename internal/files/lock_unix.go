//go:build linux || darwin

package files

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckWritable reports whether files can be made in a folder. It does not try to make one, since
// another run could mistake it for a file of the user.
func CheckWritable(folder string) error {
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return err
	}
	const proc, sysfs = 0x9fa0, 0x62656572 // which are writable for root, and keep no files
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err == nil && (int64(s.Type) == proc || int64(s.Type) == sysfs) {
		return errors.New("the kernel's folders keep no files")
	}
	return nil
}

// lockFile locks a file or a folder, and reports whether no other process has locked it. Several processes
// may share a lock. The system releases the lock when the file is closed or the process ends.
func lockFile(f *os.File, shared bool) bool {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	return err != syscall.EWOULDBLOCK && err != syscall.EINTR
}

// inodeOf returns the inode of a file.
func inodeOf(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
