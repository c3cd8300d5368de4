package psim

import (
	"cmp"
	"time"

	"psim/costmodel/memory"
	"psim/results"
	"psim/schedules/graph"
	"psim/sim"
)

// simulatePacked simulates a packed plan. What cannot be run is simulated as it is
// otherwise, for the reason.
func (p *Prediction) simulatePacked(start time.Time) error {
	packed := p.Plan.Packed
	engine := sim.Packed{Causes: true}
	if blocked := engine.Run(packed); blocked != nil {
		plan, err := p.Config.Build()
		if err == nil {
			_, err = Simulate(plan)
		}
		return cmp.Or(err, blocked)
	}
	statistics := graph.Statistics{Peaks: true}
	p.Simulation = Simulation{Plan: p.Plan}
	statistics.Summarize(packed, &p.Summary)
	if p.Plan.Workload != nil {
		memory.ReservePeaks(p.Plan.Workload, &p.Summary)
	}
	p.SimulationTime += time.Since(start)
	info := Info(p.Config, p.Plan)
	info.Memory = func(*graph.Trace, graph.Summary) []results.MemoryBytes { return packedMemory(p, &statistics) }
	p.Result = results.NewResult(results.Predicted, packed.Trace(), p.Summary, info)
	p.Result.Tasks = packed.Size()
	path := packed.Path(engine.CriticalPath())
	whole := make([]int32, len(path.Spans))
	for i := range whole {
		whole[i] = int32(i)
	}
	p.Result.CriticalPath = results.NewCriticalPath(path, whole)
	return nil
}

// packedMemory divides the peaks of a packed plan by what they hold.
func packedMemory(p *Prediction, s *graph.Statistics) []results.MemoryBytes {
	if p.Plan.Workload != nil {
		return memoryBytes(memory.NewLedger(p.Plan.Workload, p.Plan.Graph).AtPackedPeak(s))
	}
	if !p.Plan.Packed.Remembers() {
		return nil
	}
	list := make([]results.MemoryBytes, len(p.Summary.Ranks))
	for r, rank := range p.Summary.Ranks {
		list[r].Activations = rank.PeakMemory
	}
	return list
}
