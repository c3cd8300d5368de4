package exec

import (
	"context"

	"psim/exec/programs"
	"psim/schedules/graph"
)

// Step trains on one batch by running the graph.
func (t *Trainer) Step(ctx context.Context, b Batch, o RunOptions) (*graph.Trace, float64, error) {
	return t.stepWith(ctx, Run, b, o, nil)
}

// StepAlone trains on one batch, one task after another.
func (t *Trainer) StepAlone(ctx context.Context, b Batch) (*graph.Trace, error) {
	trace, _, err := t.stepWith(ctx, OneByOne, b, RunOptions{}, nil)
	return trace, err
}

// Calls is how many programs that make gradients the last step ran, by rank.
func (t *Trainer) Calls() []int { return t.calls }

// Copies reads, for tests, every copy of every parameter: of all replicas, of
// second copies of stages, and of tied parameters on several ranks.
func (t *Trainer) Copies() (map[string][][]float32, error) {
	all := map[string][][]float32{}
	for _, m := range t.members {
		for i, p := range m.tensors {
			values, err := programs.Read[float32](m.parameters[i])
			if err != nil {
				return nil, err
			}
			all[p.Name] = append(all[p.Name], values)
		}
	}
	return all, nil
}

// Best is best.
func (p Probe) Best(q Probe) Probe { return p.best(q) }

// HeldOut exports heldOut.
func (s *Source) HeldOut() []Batch { return s.heldOut() }

// WrongWithout runs a collective without some of its tasks, and counts the wrong numbers.
func (r CollectiveRun) WrongWithout(ctx context.Context, devices []*programs.Device, without func(i int32) bool) (int, error) {
	arithmetic := make([]*programs.Arithmetic, len(devices))
	for i, d := range devices {
		arithmetic[i] = programs.NewArithmetic(d.Backend)
		defer arithmetic[i].Close()
	}
	wrong, _, err := r.once(ctx, devices, arithmetic, func(ctx context.Context, c *carrier, _ RunOptions) error {
		for i := range int32(c.graph.Len()) {
			if without(int32(i / 2)) {
				continue
			}
			if err := c.do(ctx, int32(i)); err != nil {
				return err
			}
		}
		return nil
	})
	return wrong, err
}

// Held reads what the ranks of this process hold, by rank and name.
func (t *Trainer) Held() ([]map[string][]float32, error) { return t.held() }
