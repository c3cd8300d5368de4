//go:build !linux && !darwin

package files

import "os"

// CheckWritable makes and removes a file in a folder.
func CheckWritable(folder string) error {
	probe, err := os.CreateTemp(folder, ".psim-*")
	if err != nil {
		return err
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// lockFile does nothing on systems without locks.
func lockFile(f *os.File, shared bool) bool { return true }

// inodeOf returns 0 on systems whose files have no inodes.
func inodeOf(info os.FileInfo) uint64 { return 0 }
