package train

import (
	"psim/exec/backend"
	"psim/schedules/graph"
)

// results points at the tensors that a task has just made for others.
func (s *step) results(i int32) (at []**backend.DeviceTensor) {
	t := s.job.Graph.Task(i)
	m := s.ranks[t.Rank]
	switch t.Kind {
	case graph.Loss:
		at = append(at, &s.state(t, t.Stage).outputGradient)
	case graph.Forward:
		x := s.state(t, t.Stage)
		at = append(at, &x.output, &x.outputGradient)
		if next := t.Stage + 1; int(next) < len(s.job.Stages) && s.sameRank(t.Stage, next) {
			at = append(at, &s.state(t, next).input)
		}
	case graph.SendForward, graph.SendBackward:
		from, to := s.sent(t)
		at = append(at, to, from) // from is still set if another process receives it
	case graph.Backward, graph.InputGradient, graph.WeightGradient:
		return s.backwardResults(t)
	case graph.AllReduce, graph.ReduceScatter, graph.Average, graph.Zero:
		if at = m.gradients.Pointers(); s.job.Gathers() && t.Kind.Collective() {
			at = append(at, s.last(s.shards, t)...)
		}
	case graph.Optimizer, graph.Broadcast:
		at = m.parameters.Pointers()
	case graph.AllGather:
		at = s.last(s.gathered, t)
	}
	return at
}

// backwardResults points at the gradients, of the input and of parameters, that a backward has
// made.
func (s *step) backwardResults(t graph.Task) (at []**backend.DeviceTensor) {
	x, st := s.state(t, t.Stage), s.ranks[t.Rank].stages[t.Stage]
	if t.Kind != graph.WeightGradient {
		at = append(at, &x.inputGradient, &x.outputGradient)
		if t.Stage > 0 && s.sameRank(t.Stage, t.Stage-1) {
			at = append(at, &s.state(t, t.Stage-1).outputGradient)
		}
	}
	switch {
	case t.Kind == graph.InputGradient:
	case st.sharded:
		at = append(at, s.last(s.scattered, t)...)
	default:
		for _, g := range st.segments {
			if !s.belongs(t, g) {
				continue
			}
			for _, k := range g.at {
				at = append(at, &st.gradients[k])
			}
		}
	}
	return at
}

// last points at the tensors that a task's rank has pushed last.
func (s *step) last(q queue, t graph.Task) []**backend.DeviceTensor {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists := q[[2]int32{t.Rank, t.Stage}]
	if len(lists) == 0 {
		return nil
	}
	return lists[len(lists)-1].Pointers()
}
