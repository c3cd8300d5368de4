//go:build linux || darwin

package files

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CheckWritable reports whether files can be made in a folder. It makes none, which
// another run could take for the user's.
func CheckWritable(folder string) error {
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return err
	}
	return checkKept(folder)
}

// patience limits how long lock waits for another process.
const patience = 30 * time.Second

// lock keeps other processes of psim from writing into folders of a folder, and if it
// is not shared from reading them under one. The system lifts it when the process
// ends, however it does. locked is false where that is not possible.
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

// lockFile keeps other processes from locking a file, and reports whether none has.
// The system lifts it when the file is closed, or the process ends.
func lockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != syscall.EWOULDBLOCK
}
