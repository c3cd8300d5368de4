package train

import (
	"context"
	"fmt"
	"maps"
	"runtime"

	"psim/exec/cluster"
	"psim/exec/data"
	"psim/exec/run"
	"psim/internal/ram"
	"psim/schedules/graph"
)

// Options say how long to train and what to keep.
type Options struct {
	// Run says how the graph of a step is run.
	Run run.Options
	// Warmup steps are trained before Steps measured ones.
	Warmup, Steps int
	// Epochs, if not 0, replace Steps: they are passes over the data set, and Warmup counts
	// passes too.
	Epochs int
	// Record keeps what is needed to compare with the unsplit run: the gradients of the first
	// step, and the outputs of one more step after the measured ones. Without it, only losses
	// are recorded.
	Record bool
	// Gradients keeps the gradients of the first step, by rank.
	Gradients bool
	// Progress, if set, is called before every step.
	Progress func(step, of int)
}

// Total returns the number of steps that Train takes, including warm-up and recording. A Source
// must have batches for all of them.
func (o Options) Total() int {
	n := o.Warmup + o.Steps
	if o.Record {
		n++
	}
	return n
}

// maxSteps bounds the steps of epochs, because all their traces are kept.
const maxSteps = 100_000

// InSteps returns the options with epochs of a number of steps as steps.
func (o Options) InSteps(epoch int) (Options, error) {
	if o.Epochs == 0 {
		return o, nil
	}
	if o.Epochs+o.Warmup > maxSteps/epoch {
		return o, fmt.Errorf("%d epochs of %d steps: at most %d steps can be kept; "+
			"train fewer epochs, or on fewer samples", o.Epochs+o.Warmup, epoch, maxSteps)
	}
	o.Steps, o.Warmup = o.Epochs*epoch, o.Warmup*epoch
	return o, nil
}

// evaluates reports whether the samples that are held out are evaluated after a step: the last
// of an epoch, or of the measured steps.
func (o Options) evaluates(n int) bool {
	each := o.Warmup + o.Steps
	if o.Epochs > 0 {
		each = o.Steps / o.Epochs
	}
	return n < o.Warmup+o.Steps && (n+1)%each == 0
}

// Trained is the result of a training.
type Trained struct {
	Traces []*graph.Trace // of the measured steps
	Record *Record
	// GradientCalls is the number of programs that compute gradients in a step, by rank.
	// PyTorch's autograd would be called equally often.
	GradientCalls []int
	// Compiled has, for every rank, the program that takes most beyond what the ledger sees; nil if the
	// compiler does not say what programs take.
	Compiled []ProgramMemory
	// Gradients are those of the first step, by rank, if they were asked for.
	Gradients []Gradients
	// Heap is the largest number of bytes, including garbage, on this process's heap at the end
	// of a measured step.
	Heap int64
}

// Train trains a number of steps on the batches of a source. When ctx ends early, or a step
// fails, it returns the measurements so far with the error.
func (t *Trainer) Train(ctx context.Context, source *data.Source, o Options) (*Trained, error) {
	result := &Trained{Record: &Record{}}
	defer ram.HoldGarbage()()
	for n := range o.Total() {
		if o.Progress != nil {
			o.Progress(n, o.Total())
		}
		keep := t.captureAt(n, o)
		runtime.GC()
		trace, loss, err := t.stepWith(ctx, source.Batch(n), stepOptions{Options: o.Run, run: run.Graph, capture: keep})
		if err == nil && n == o.Total()-1 {
			err = t.checkParameters()
		}
		if err != nil {
			return result, t.explain(ctx, source.Batch, NumberError{Step: n, Steps: o.Total(), Seen: err}, o.Run)
		}
		result.GradientCalls, result.Compiled = t.calls, t.compiled
		result.Record.Losses = append(result.Record.Losses, loss)
		if keep != nil && !o.Run.Follows() {
			t.addCaptured(result, keep, o)
		}
		if n >= o.Warmup && n < o.Warmup+o.Steps {
			result.Traces = append(result.Traces, trace)
			result.Heap = max(result.Heap, ram.Heap()+t.heap)
		}
		if source.Held() > 0 && o.evaluates(n) {
			loss, err := t.Evaluate(ctx, source, o.Run)
			if err != nil {
				return result, fmt.Errorf("validation: %w", err)
			}
			result.Record.Validation = append(result.Record.Validation, loss)
		}
	}
	if !o.Record {
		return result, nil
	}
	return result, t.recordParameters(ctx, result.Record, o.Run.World)
}

// outputStep returns the step whose outputs are recorded: the second, or the only one. It shows what a
// forward makes of weights that were updated. In later steps a network without norms makes so much of
// the rounding of its weights that outputs show nothing else. The weights are recorded after the last.
func (o Options) outputStep() int { return min(1, o.Total()-1) }

// captureAt returns what to record of a step; nil for nothing.
func (t *Trainer) captureAt(n int, o Options) *capture {
	first, outputs := n == 0 && (o.Record || o.Gradients), n == o.outputStep() && o.Record
	if !first && !outputs {
		return nil
	}
	c := &capture{}
	if first {
		c.gradients = make([]Gradients, t.job.Graph.Ranks())
	}
	if outputs {
		c.outputs = make([][]float32, t.job.Graph.Shape.Replicas*len(t.job.Samples))
	}
	return c
}

// addCaptured adds the recorded numbers of a step to the result.
func (t *Trainer) addCaptured(result *Trained, c *capture, o Options) {
	if c.gradients != nil && o.Gradients {
		result.Gradients = c.gradients
	}
	if c.gradients != nil && o.Record {
		held := make([]map[string][]float32, len(c.gradients))
		for rank := range held {
			held[rank] = c.gradients[rank].Values
		}
		result.Record.Gradients = t.byReplica(held)
	}
	for _, outputs := range c.outputs {
		result.Record.Outputs = append(result.Record.Outputs, outputs...)
	}
}

// recordParameters records the parameters after the last step.
func (t *Trainer) recordParameters(ctx context.Context, r *Record, w *cluster.World) error {
	held, err := t.held()
	if err == nil && w != nil {
		held, err = gatherHeld(ctx, held, w)
	}
	if err != nil || w != nil && w.Rank > 0 {
		return err
	}
	r.Parameters = t.byReplica(held)
	return nil
}

// gatherHeld brings the parameters that the ranks of all processes hold to the first process.
func gatherHeld(ctx context.Context, held []map[string][]float32, w *cluster.World) ([]map[string][]float32, error) {
	own := make([]map[string]numbers, len(held))
	for rank, values := range held {
		own[rank] = packed(values)
	}
	all, err := cluster.GatherValues(ctx, w, w.Next("parameters"), own)
	for k := 1; k < len(all); k++ {
		for rank, values := range all[k] {
			maps.Copy(held[rank], unpacked(values))
		}
	}
	return held, err
}
