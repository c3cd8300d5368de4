package data

import (
	"fmt"
	"os"
)

// openRegular opens a file. It refuses what never ends, or for which it would
// wait: a folder, a device, a pipe.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	return os.Open(path)
}
