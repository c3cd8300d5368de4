//go:build linux || darwin

package files

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CheckWritable reports whether files can be made in a folder. It does not try to make one, since
// another run could mistake it for a file of the user.
func CheckWritable(folder string) error {
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return err
	}
	return checkKept(folder)
}

// patience limits how long lock waits for another process.
const patience = 30 * time.Second

// lock keeps other processes of psim from writing into folders of a folder. A lock that is not shared
// also keeps out processes with a shared lock, which read. The system releases the lock when the
// process ends for any reason. locked is false if the folder cannot be locked.
func lock(folder string, shared bool) (unlock func(), locked bool) {
	f, err := os.Open(folder)
	if err != nil {
		return func() {}, false
	}
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR || time.Now().After(end) {
			return func() { f.Close() }, err == nil
		}
	}
}

// lockFile locks a file, and reports whether no other process has locked it. The system releases the
// lock when the file is closed or the process ends.
func lockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != syscall.EWOULDBLOCK
}
