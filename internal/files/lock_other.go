//go:build !linux && !darwin

package files

// lock does nothing where folders cannot be locked.
func lock(folder string, shared bool) (unlock func(), locked bool) { return func() {}, false }
