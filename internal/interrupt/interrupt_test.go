package interrupt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/interrupt"
)

func TestAwait(t *testing.T) {
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), ctx} {
		n, err := interrupt.Await(ctx, func() (int, error) { return 3, broken })
		require.Equal(t, 3, n)
		require.Equal(t, broken, err)
	}
}

// Nobody waits for a computation when the context has ended.
func TestAwaitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	begun, never := make(chan bool), make(chan bool)
	defer close(never)
	go func() {
		<-begun
		cancel()
	}()
	_, err := interrupt.Await(ctx, func() (int, error) {
		begun <- true
		<-never
		return 0, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	_, err = interrupt.Await(ctx, func() (int, error) {
		t.Error("begins what nobody waits for")
		return 0, nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

func ExampleAwait() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := interrupt.Await(ctx, func() (int, error) { return 6 * 7, nil })
	fmt.Println(err)
	// Output: context canceled
}
