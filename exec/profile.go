package exec

import (
	"context"
	"runtime"

	"psim/schedules/graph"
)

// Profile measures every task alone: it runs steps one task after another,
// drops the first, which warms up, and returns the traces of the others. The
// trainer then begins anew, with its first parameters.
func (t *Trainer) Profile(ctx context.Context, b Batch, repeats int) ([]*graph.Trace, error) {
	var traces []*graph.Trace
	resume := holdGarbage()
	defer resume()
	for n := range repeats + 1 {
		runtime.GC()
		trace, _, err := t.stepWith(ctx, OneByOne, b, RunOptions{}, nil)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			traces = append(traces, trace)
		}
	}
	return traces, t.Reset()
}
