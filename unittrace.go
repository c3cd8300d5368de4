package psim

import (
	"time"

	"psim/costmodel"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// Unit is the time that counts as one where only order matters; any would do.
const Unit = time.Second

// UnitTrace runs the order of a schedule without costs: F, I and W take one unit of time, B two, messages none.
// What is not a pipeline has four copies, and sums gradients in two halves that
// take one each.
func UnitTrace(s schedules.Schedule, shape graph.Shape) (*graph.Trace, error) {
	pipeline, err := s.Pipeline(shape, nil)
	if err != nil {
		return nil, err
	}
	if !s.Pipelined {
		pipeline.Shape.Replicas = 4
		pipeline.Sync = wiring.Sync{Buckets: [][]int64{{1, 1}}, Overlap: true}
	}
	g, err := pipeline.Graph()
	if err != nil {
		return nil, err
	}
	one := costmodel.Uniform(Unit)
	times := costmodel.Times{Forward: one, InputGradient: one, WeightGradient: one}
	costs := times.Costs(costmodel.ActivationMemory{})
	task := costs.Task
	costs.Task = func(t *graph.Task) graph.Cost {
		slice := !s.Pipelined && t.Kind == graph.Backward && int(t.Microbatch) == shape.Microbatches-1
		if t.Kind.Collective() || slice {
			return graph.Cost{Busy: Unit}
		}
		return task(t)
	}
	return sim.Run(g, costs)
}
