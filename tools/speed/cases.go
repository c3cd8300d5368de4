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

// cases do what is measured, of a size, and return what of it stays in use.
var cases = map[string]func(size string) (measured, any, error){
	"graph":  graphs,
	"packed": packed,
	"trace":  func(nodes string) (measured, any, error) { return steps(nodes, psim.Predict) },
	"step":   func(nodes string) (measured, any, error) { return steps(nodes, psim.Estimate) },
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
	times := costmodel.Times{Forward: costmodel.Uniform(10 * time.Millisecond), Backward: costmodel.Uniform(20 * time.Millisecond)}
	return p, times.Costs(costmodel.MemoryOptions{Activation: 1 << 20}, p.Placement), err
}

// graphs makes an order, its graph, a trace and their statistics.
func graphs(size string) (m measured, keep any, err error) {
	begin := cpu()
	p, costs, err := pipeline(size)
	if err != nil {
		return m, nil, err
	}
	g, err := p.Graph()
	if err != nil {
		return m, nil, err
	}
	t, err := sim.Run(g, costs)
	if err != nil {
		return m, nil, err
	}
	s := graph.Summarize(t)
	return measured{Tasks: len(g.Tasks), CPU: cpu() - begin, Step: s.StepTime}, t, nil
}

// packed does the same packed.
func packed(size string) (m measured, keep any, err error) {
	begin := cpu()
	p, costs, err := pipeline(size)
	if err != nil {
		return m, nil, err
	}
	var packer wiring.Packer
	k, err := packer.Pack(p, true)
	if err != nil {
		return m, nil, err
	}
	var engine sim.Packed
	if err = k.Price(costs); err == nil {
		err = engine.Run(k)
	}
	if err != nil {
		return m, nil, err
	}
	var statistics graph.Statistics
	var s graph.Summary
	statistics.Summarize(k, &s)
	return measured{Tasks: k.Size(), CPU: cpu() - begin, Step: s.StepTime}, []any{p, &packer, &engine, &statistics}, nil
}

// steps predicts a step of Megatron's 1T on 3,072 GPUs, in nodes of some size: all that
// psim run does but print it. CPU counts from the start of the process.
func steps(nodes string, predict func(context.Context, *configs.Config) (*psim.Prediction, error)) (m measured, keep any, err error) {
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
