package files

import "golang.org/x/sys/unix"

// exchange swaps two folders in one step, or in two where the file system cannot.
func exchange(fresh, old string) error {
	if unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, old, unix.RENAME_EXCHANGE) == nil {
		return nil
	}
	return exchangeInSteps(fresh, old)
}
