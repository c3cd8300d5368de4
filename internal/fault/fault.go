// Package fault lets tests make the tasks of an execution go wrong. A hook travels with
// the context that graphs are run with. Only tests put one there.
package fault

import "context"

// A Hook is called before every task, with the name of its graph, its rank and its index
// among the graph's tasks. It may panic, wait, or end the process. Its error becomes the
// task's error, and the damage that it returns is done to the task's result.
type Hook func(ctx context.Context, graph string, rank, task int32) (Damage, error)

// Damage is what happens to the result of a task that otherwise succeeds.
type Damage int

// The kinds of damage.
const (
	None      Damage = iota
	NaN              // the result is filled with NaN
	Lost             // the completion message is dropped
	Truncated        // the last number of a message is missing
)

// Key is the key of a Hook among a context's values.
type Key struct{}

// From returns the context's hook, or nil.
func From(ctx context.Context) Hook {
	hook, _ := ctx.Value(Key{}).(Hook)
	return hook
}

// A damageKey finds a task's damage among the values of its context.
type damageKey struct{}

// WithDamage returns the context of a task whose result is to be damaged.
func WithDamage(ctx context.Context, d Damage) context.Context {
	return context.WithValue(ctx, damageKey{}, d)
}

// DamageOf returns the damage that the context's task is to do; None outside tests.
func DamageOf(ctx context.Context) Damage {
	d, _ := ctx.Value(damageKey{}).(Damage)
	return d
}
