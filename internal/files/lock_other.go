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

// lock does nothing on systems without locks of folders.
func lock(folder string, shared bool) (unlock func(), locked bool) { return func() {}, false }

// lockFile does nothing on systems without locks of files.
func lockFile(*os.File) bool { return true }
