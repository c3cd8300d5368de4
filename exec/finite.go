package exec

import (
	"context"
	"errors"
	"fmt"
)

// A NumberError says that a training has made a number that is NaN or infinite.
type NumberError struct {
	Step, Steps int   // at which step of how many it was noticed, from 0
	Seen        error // where it was noticed
	// First is the task that left the first such number when the steps were run again,
	// one task after another, and At its step. It is nil if there was none then, and
	// Again is false if the steps could not be run again.
	First error
	At    int
	Again bool
}

// Error names the step, where it was noticed and where it came from.
func (e *NumberError) Error() string {
	text := fmt.Sprintf("step %d of %d: %v", e.Step+1, e.Steps, e.Seen)
	switch {
	case e.First != nil && e.At == e.Step && e.First.Error() == e.Seen.Error():
		text += "; run again task by task, everything before that is finite; a smaller learning rate may help"
	case e.First != nil:
		text += fmt.Sprintf("; run again task by task, it begins in step %d: %v; a smaller learning rate may help", e.At+1, e.First)
	case e.Again:
		text += "; run again task by task, everything is finite: something is wrong with this machine, such as its memory"
	}
	return text
}

// Unwrap returns where it was noticed.
func (e *NumberError) Unwrap() error { return e.Seen }

// notFinite says what is not finite.
type notFinite string

// Error says what is not finite.
func (n notFinite) Error() string { return string(n) }

// explain adds to an error of a step where a number that is not finite came from: it runs
// the steps until then again, one task after another, and looks at what each task leaves.
// Other errors stay as they are. The trainer has to be Reset then.
func (t *Trainer) explain(ctx context.Context, batch func(step int) Batch, e NumberError, o RunOptions) error {
	var seen notFinite
	if !errors.As(e.Seen, &seen) {
		return e.Seen
	}
	if o.World != nil { // the other processes know nothing of it
		return &e
	}
	if err := t.Reset(); err != nil {
		return &e
	}
	for n := range e.Step + 1 {
		_, _, err := t.stepWith(ctx, OneByOne, batch(n), o, &capture{check: true})
		if errors.As(err, &seen) {
			e.First, e.At = err, n
			break
		}
		if err != nil {
			return &e
		}
	}
	e.Again = true
	return &e
}

// checkLeft looks at what a task has left, where that is wanted.
func (c *capture) checkLeft(s *step, i int32) error {
	if c == nil || !c.check {
		return nil
	}
	for _, at := range s.left(i) {
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

// checkParameters finds parameters that are not finite, which no loss has shown.
func (t *Trainer) checkParameters() error {
	for rank, m := range t.members {
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
