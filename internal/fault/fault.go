// Package fault lets tests make tasks of an execution go wrong. A hook comes with the
// context that graphs are run with. Nothing but tests puts one there.
package fault

import "context"

// A Hook is called before every task: of which graph, on which rank, and where among its
// tasks. It may panic, wait, or end the process; its error is the task's; and what it
// returns as damage is done to what the task makes.
type Hook func(ctx context.Context, graph string, rank, task int32) (Damage, error)

// Damage is what happens to the result of a task that otherwise goes well.
type Damage int

// What can happen to a result.
const (
	None      Damage = iota
	NaN              // its numbers are none
	Lost             // nobody who waits for the task hears of its end
	Truncated        // the last number of a message is missing
)

// Key is that of a Hook among a context's values.
type Key struct{}

// From returns the context's hook, nil if it has none.
func From(ctx context.Context) Hook {
	hook, _ := ctx.Value(Key{}).(Hook)
	return hook
}
