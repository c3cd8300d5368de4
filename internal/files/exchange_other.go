//go:build !linux

package files

import "os"

// exchange swaps two folders.
func exchange(fresh, old string) error { return exchangeInSteps(fresh, old) }

// sameOwner reports true, since there may be no owners.
func sameOwner(os.FileInfo, os.FileInfo, string, string) bool { return true }
