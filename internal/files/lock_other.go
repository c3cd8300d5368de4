//go:build !linux && !darwin

package files

import "os"

// lock does nothing where folders cannot be locked.
func lock(folder string, shared bool) (unlock func(), locked bool) { return func() {}, false }

// lockFile does nothing where files cannot be locked.
func lockFile(*os.File) bool { return true }
