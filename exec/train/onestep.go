package train

import (
	"context"
	"time"

	"psim/exec/data"
	"psim/exec/run"
	"psim/schedules/graph"
)

// stepOptions say how one step is run.
type stepOptions struct {
	run.Options
	// run performs the tasks of the graph: run.Graph, or run.OneByOne.
	run     func(context.Context, *graph.Graph, run.Do, run.Options) (*graph.Trace, error)
	capture *capture // what to record; nil for nothing
}

// A Repetition counts steps on the same batch, from 0.
type Repetition struct{ Step, Steps int }

// StepOneByOne trains on a batch by performing the tasks of the graph one after another. If one
// of them makes a number that is NaN or infinite, the error names the task.
func (t *Trainer) StepOneByOne(
	ctx context.Context, b data.StepBatch, at Repetition, o run.Options,
) (*graph.Trace, error) {
	trace, _, err := t.stepWith(ctx, b, stepOptions{Options: o, run: run.OneByOne})
	return trace, t.explainRepeated(ctx, b, NumberError{Step: at.Step, Steps: at.Steps, Seen: err}, o)
}

// CheckParameters fails if a parameter is NaN or infinite after the last of several steps on the
// same batch. The error names the parameter, and the task that made it.
func (t *Trainer) CheckParameters(ctx context.Context, b data.StepBatch, at Repetition, o run.Options) error {
	return t.explainRepeated(ctx, b, NumberError{Step: at.Step, Steps: at.Steps, Seen: t.checkParameters()}, o)
}

// explainRepeated explains the error, if any, of a step that repeats a batch.
func (t *Trainer) explainRepeated(ctx context.Context, b data.StepBatch, e NumberError, o run.Options) error {
	if e.Seen == nil {
		return nil
	}
	return t.explain(ctx, func(int) data.StepBatch { return b }, e, o)
}

// stepWith trains on one batch by running the graph. It returns the trace, with the memory of
// the devices' tensors over time, and the mean loss before the step. After an error the trainer
// has to be Reset.
func (t *Trainer) stepWith(ctx context.Context, b data.StepBatch, o stepOptions) (*graph.Trace, float64, error) {
	s, err := t.newStep(b)
	if err != nil {
		return nil, 0, err
	}
	s.capture = o.capture
	if err := s.joinProcesses(ctx, &o.Options); err != nil {
		return nil, 0, err
	}
	o.Begin = time.Now()
	ledger := watchLedger(t.devices, o.Begin)
	trace, err := o.run(ctx, t.job.Graph, s.do, o.Options)
	s.release()
	t.steps++
	trace.Memory, trace.Persistent = ledger.end()
	if err == nil {
		err = s.gatherReports(ctx, o.Begin, trace)
	}
	t.calls, t.heap, t.compiled = s.calls, s.heap, append(t.ownCompiled(), s.compiled...)
	return trace, s.loss(), err
}
