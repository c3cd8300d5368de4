package exec

import (
	"context"
	"fmt"
	"math"

	"psim/exec/programs"
	"psim/internal/fault"
	"psim/schedules/graph"
)

// damageKey finds the damage that a test wants of a task in its context.
type damageKey struct{}

// damaged returns the damage that a task is to do; none but in tests.
func damaged(ctx context.Context) fault.Damage {
	damage, _ := ctx.Value(damageKey{}).(fault.Damage)
	return damage
}

// spoil makes the numbers of a tensor that a task has left none.
func spoil(left []**programs.Tensor) error {
	for _, at := range left {
		if *at == nil {
			continue
		}
		spoiled, err := (*at).Changed(func(values []float32) []float32 {
			for i := range values {
				values[i] = float32(math.NaN())
			}
			return values
		})
		if err != nil {
			return err
		}
		(*at).Release()
		*at = spoiled
		return nil
	}
	return nil
}

// copyWhole copies a tensor to another device, and checks that all of it has come.
func copyWhole(ctx context.Context, t *programs.Tensor, d *programs.Device) (*programs.Tensor, error) {
	copied, err := t.CopyTo(d)
	if err == nil && damaged(ctx) == fault.Truncated {
		whole := copied
		copied, err = whole.Changed(func(values []float32) []float32 { return values[:len(values)-1] })
		whole.Release()
	}
	if err == nil && copied.Bytes() != t.Bytes() {
		err = fmt.Errorf("a message of %d bytes came with %d", t.Bytes(), copied.Bytes())
		copied.Release()
	}
	return copied, err
}

// left points at the tensors that a task has just left for others.
func (s *step) left(i int32) (at []**programs.Tensor) {
	t := s.job.Graph.Task(i)
	m := s.members[t.Rank]
	switch t.Kind {
	case graph.Forward:
		x := s.at(t, t.Stage)
		at = append(at, &x.output, &x.outputGradient)
		if next := t.Stage + 1; int(next) < len(s.job.Stages) && s.sameRank(t.Stage, next) {
			at = append(at, &s.at(t, next).input)
		}
	case graph.SendForward, graph.SendBackward:
		from, to := s.sent(t)
		at = append(at, to, from) // which is still there where another process takes it
	case graph.Backward, graph.InputGradient, graph.WeightGradient:
		return s.leftBackward(t)
	case graph.AllReduce, graph.ReduceScatter, graph.Average:
		at = pointers(m.gradients)
	case graph.Optimizer, graph.Broadcast:
		at = pointers(m.parameters)
	case graph.AllGather:
		at = s.last(s.gathered, t)
	}
	return at
}

// leftBackward points at gradients, of the input and of parameters.
func (s *step) leftBackward(t graph.Task) (at []**programs.Tensor) {
	x, st := s.at(t, t.Stage), s.stage(t)
	if t.Kind != graph.WeightGradient {
		at = append(at, &x.inputGradient, &x.outputGradient)
		if t.Stage > 0 && s.sameRank(t.Stage, t.Stage-1) {
			at = append(at, &s.at(t, t.Stage-1).outputGradient)
		}
	}
	switch {
	case t.Kind == graph.InputGradient:
	case st.sharded:
		at = append(at, s.last(s.scattered, t)...)
	default:
		for _, g := range st.segments {
			if !s.runs(t, g) {
				continue
			}
			for _, k := range g.at {
				at = append(at, &st.gradients[k])
			}
		}
	}
	return at
}

// last points at the tensors that were pushed last by a task's rank.
func (s *step) last(q queue, t graph.Task) []**programs.Tensor {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists := q[[2]int32{t.Rank, t.Stage}]
	if len(lists) == 0 {
		return nil
	}
	return pointers(lists[len(lists)-1])
}

func pointers(list programs.List) []**programs.Tensor {
	at := make([]**programs.Tensor, len(list))
	for i := range list {
		at[i] = &list[i]
	}
	return at
}
