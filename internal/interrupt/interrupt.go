// Package interrupt lets computations that do not know contexts end with a context.
package interrupt

import "context"

// Await returns the result of compute, or the context's error as soon as the context ends. In
// that case compute still runs to its end in the background. It must therefore not write
// anything, nor hold resources that have to be released.
func Await[T any](ctx context.Context, compute func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil { // it never ends
		return compute()
	}
	done := make(chan result, 1)
	go func() {
		value, err := compute()
		done <- result{value, err}
	}()
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case r := <-done:
		return r.value, r.err
	}
}
