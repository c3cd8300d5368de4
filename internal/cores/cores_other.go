//go:build !linux

package cores

import "errors"

// Allowed fails where the system does not say.
func Allowed() ([]int, error) { return nil, errors.ErrUnsupported }

// Stay fails where no goroutine can be kept on a core.
func Stay(int) (leave func(), err error) { return nil, errors.ErrUnsupported }

// Confine fails where a process cannot be kept on cores.
func Confine([]int) (leave func(), err error) { return nil, errors.ErrUnsupported }

// Steady does nothing where interruptions cannot be held back.
func Steady() (leave func()) { return func() {} }
