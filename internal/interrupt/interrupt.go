// Package interrupt makes computations that know no context end with one.
package interrupt

import "context"

// Await returns what compute returns, or the context's error as soon as the
// context ends. Nobody waits for compute then, which runs on to its end: it may
// compute, but must not write, and hold nothing that has to be given back.
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
