package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"psim/exec/backend"
	"psim/exec/cluster"
	"psim/exec/data"
	"psim/exec/run"
	"psim/internal/ram"
)

// A NumberError says that a training has made a number that is NaN or infinite.
type NumberError struct {
	Step, Steps int   // where it was noticed, from 0
	Seen        error // how it was noticed
	// First is the task that made the first such number when the steps were run again, one task
	// after another, and At its step. It is nil if there was none then. Again is false if the
	// steps could not be run again.
	First error
	At    int
	Again bool
}

// Error names the step, how it was noticed and where it came from.
func (e *NumberError) Error() string {
	text := fmt.Sprintf("step %d of %d: %v", e.Step+1, e.Steps, e.Seen)
	switch {
	case e.First != nil && e.At == e.Step && e.First.Error() == e.Seen.Error():
		text += "; run again task by task, everything before that is finite; a smaller learning rate may help"
	case e.First != nil:
		text += fmt.Sprintf("; run again task by task, it begins in step %d: %v; a smaller learning rate may help",
			e.At+1, e.First)
	case e.Again:
		text += "; run again task by task, everything is finite: " +
			"something is wrong with this machine, such as its memory"
	}
	return text
}

// Unwrap returns how it was noticed.
func (e *NumberError) Unwrap() error { return e.Seen }

// A notFinite error names a number that is NaN or infinite.
type notFinite string

// Error names the number.
func (n notFinite) Error() string { return string(n) }

// explain adds to the error of a step where a NaN or infinite number came from. It runs the
// steps up to that one again, one task after another, and checks the results of each task. Of
// several processes, the one that noticed it does so alone, on its own devices, while the
// others wait. Other errors are returned unchanged. The trainer has to be Reset afterwards.
func (t *Trainer) explain(
	ctx context.Context, batch func(step int) data.StepBatch, e NumberError, o run.Options,
) error {
	var seen notFinite
	if !errors.As(e.Seen, &seen) {
		return e.Seen
	}
	again, o, end, err := t.soloTrainer(o)
	if err != nil {
		return &e
	}
	defer end()
	for n := range e.Step + 1 {
		checked := stepOptions{Options: o, run: run.OneByOne, capture: &capture{check: true}}
		_, _, err := again.stepWith(ctx, batch(n), checked)
		if errors.As(err, &seen) {
			e.First, e.At = err, n
			break
		}
		if errors.As(err, new(*cluster.AbortError)) { // another process has found it
			return err
		}
		if err != nil {
			return &e
		}
	}
	e.Again = true
	return &e
}

// soloTrainer returns a trainer that begins anew and needs no other process: this one or, of
// several processes, one with all ranks on the devices of this process, if its memory is large
// enough.
func (t *Trainer) soloTrainer(o run.Options) (*Trainer, run.Options, func(), error) {
	if o.World == nil {
		return t, o, func() {}, t.Reset()
	}
	own := slices.DeleteFunc(slices.Clone(t.devices), func(d *backend.LocalDevice) bool { return d == nil })
	var held int64
	devices := make([]*backend.LocalDevice, len(t.devices))
	for rank := range devices {
		devices[rank] = own[rank%len(own)]
		held += devices[rank].Bytes()
	}
	if float64(held) > ram.HeapShare*float64(ram.Free()) {
		return nil, o, nil, errors.New("too little memory for all ranks")
	}
	rest := o.World.Busy()
	again, err := NewTrainer(t.job, devices)
	if err != nil {
		rest()
		return nil, o, nil, err
	}
	return again, run.Options{Stall: o.Stall, Abandon: o.Abandon}, func() { again.Close(); rest() }, nil
}

// checkResults checks the results of a task, if that is asked for.
func (c *capture) checkResults(s *step, i int32) error {
	if c == nil || !c.check {
		return nil
	}
	for _, at := range s.results(i) {
		if *at == nil {
			continue
		}
		finite, err := (*at).Finite()
		if err == nil && !finite {
			err = notFinite("it leaves numbers that are NaN or infinite")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkParameters finds parameters that are NaN or infinite although no loss has shown it yet.
func (t *Trainer) checkParameters() error {
	for rank, m := range t.ranks {
		if m == nil {
			continue
		}
		for i, p := range m.parameters {
			finite, err := p.Finite()
			if err == nil && !finite {
				err = notFinite(fmt.Sprintf("%s on rank %d has become NaN or infinite", m.tensors[i].Name, rank))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
