package train

import (
	"context"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/run"
	"psim/schedules/graph"
)

// Step trains on one batch by running the graph.
func (t *Trainer) Step(ctx context.Context, b data.StepBatch, o run.Options) (*graph.Trace, float64, error) {
	return t.stepWith(ctx, b, stepOptions{Options: o, run: run.Graph})
}

// StepAlone trains on one batch, one task after another.
func (t *Trainer) StepAlone(ctx context.Context, b data.StepBatch) (*graph.Trace, error) {
	trace, _, err := t.stepWith(ctx, b, stepOptions{run: run.OneByOne})
	return trace, err
}

// Calls returns how many programs that make gradients the last step ran, by rank.
func (t *Trainer) Calls() []int { return t.calls }

// Copies reads every copy of every parameter: of all replicas, of second copies of stages, and
// of tied parameters on several ranks.
func (t *Trainer) Copies() (map[string][][]float32, error) {
	all := map[string][][]float32{}
	for _, m := range t.ranks {
		for i, p := range m.tensors {
			values, err := backend.Read[float32](m.parameters[i])
			if err != nil {
				return nil, err
			}
			all[p.Name] = append(all[p.Name], values)
		}
	}
	return all, nil
}

// Held reads what the ranks of this process hold, by rank and name.
func (t *Trainer) Held() ([]map[string][]float32, error) { return t.held() }
