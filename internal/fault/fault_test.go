package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/fault"
)

func TestFrom(t *testing.T) {
	require.Nil(t, fault.From(context.Background()))
	require.Nil(t, fault.From(context.WithValue(context.Background(), fault.Key{}, "no hook")))
}

func TestDamage(t *testing.T) {
	require.Equal(t, fault.None, fault.DamageOf(context.Background()))
	require.Equal(t, fault.Lost, fault.DamageOf(fault.WithDamage(context.Background(), fault.Lost)))
}

func ExampleFrom() {
	broken := fault.Hook(func(_ context.Context, _ string, rank, task int32) (fault.Damage, error) {
		if rank == 1 && task == 7 {
			return fault.None, errors.New("broken")
		}
		return fault.None, nil
	})
	ctx := context.WithValue(context.Background(), fault.Key{}, broken)
	_, err := fault.From(ctx)(ctx, "gpipe", 1, 7)
	fmt.Println(err)
	// Output: broken
}
