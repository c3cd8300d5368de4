//go:build !linux

package files

// exchange swaps two folders.
func exchange(fresh, old string) error { return exchangeInSteps(fresh, old) }
