//go:build !linux

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
