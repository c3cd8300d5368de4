package main

import (
	"context"
	"strconv"
	"time"

	"psim"
	"psim/configs"
	"psim/costmodel"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// cases do the work of a size that is measured, and return the data that stays in use.
var cases = map[string]func(size string) (measured, any, error){
	"named": func(size string) (measured, any, error) { return run(size, false) },
	"brief": func(size string) (measured, any, error) { return run(size, true) },
	"trace": func(nodes string) (measured, any, error) { return steps(nodes, psim.Predict) },
	"step":  func(nodes string) (measured, any, error) { return steps(nodes, psim.Estimate) },
}

const ranks = 64

// pipeline makes 1F1B over 64 ranks, and its costs.
func pipeline(size string) (p wiring.Pipeline, costs graph.Costs, err error) {
	microbatches, err := strconv.Atoi(size)
	if err != nil {
		return p, costs, err
	}
	s, err := schedules.Find("1f1b")
	if err != nil {
		return p, costs, err
	}
	p, err = s.Pipeline(graph.Shape{Ranks: ranks, Microbatches: microbatches}, nil)
	times := costmodel.Times{
		Forward: costmodel.Uniform(10 * time.Millisecond), Backward: costmodel.Uniform(20 * time.Millisecond),
	}
	return p, times.Costs(costmodel.MemoryOptions{Activation: 1 << 20}, p.Placement), err
}

// run makes an order, its graph, a trace and their statistics. The graph is brief, or its tasks
// have names.
func run(size string, brief bool) (m measured, keep any, err error) {
	begin := cpu()
	p, costs, err := pipeline(size)
	if err != nil {
		return m, nil, err
	}
	p.Brief, p.Folded = brief, brief
	g, err := p.Graph()
	if err != nil {
		return m, nil, err
	}
	engine := sim.Engine{NoCauses: brief}
	t, err := engine.Run(g, costs)
	if err != nil {
		return m, nil, err
	}
	s := graph.Summarize(t)
	return measured{Tasks: g.Size(), CPU: cpu() - begin, Step: s.StepTime}, []any{p, g, t}, nil
}

// A predictor is psim.Predict or psim.Estimate.
type predictor func(context.Context, *configs.Config) (*psim.Prediction, error)

// steps predicts a step of Megatron's 1T on 3,072 GPUs, in nodes of a size. It does the same
// as psim run, except for printing. CPU counts from the start of the process.
func steps(nodes string, predict predictor) (m measured, keep any, err error) {
	c, err := psim.Load("tools/speed/megatron-1t.toml", "machine.devices_per_node="+nodes)
	if err != nil {
		return m, nil, err
	}
	p, err := predict(context.Background(), c)
	if err != nil {
		return m, nil, err
	}
	return measured{Tasks: p.Result.Tasks, CPU: cpu(), Step: p.Summary.StepTime}, p, nil
}
