// Package reports turns traces into what people read: a text Gantt (Gantt),
// tables (WriteTable, WriteResultCSV), pictures (Timeline, Memory, Pareto and
// Scatter, which look as reports/chart has it), trace files for Perfetto
// (WriteChrome, WritePerfetto), and the files of a run (Result, WriteTraceCSV, WriteMemoryCSV),
// which it also reads back. It does not care whether a trace was predicted or
// measured, so both look the same and go in one picture (CompareTimelines), and
// one can be held against the other (Compare).
//
// Equal input gives equal bytes, pictures included.
package reports

import (
	"psim/schedules/graph"
)

// The kinds of result.
const (
	Predicted = "predicted"
	Measured  = "measured"
)

// Schema is the version of the format of results.
const Schema = 1

// A Result is what result.json holds: the metrics of one step, predicted or
// measured. Times are in seconds and memory in bytes.
type Result struct {
	Schema        int    `json:"schema"` // the version of this format; absent in files before 1
	Kind          string `json:"kind"`   // Predicted or Measured
	Name          string `json:"name"`
	Schedule      string `json:"schedule"`
	Stages        int    `json:"stages"` // pipeline ranks of one replica
	VirtualStages int    `json:"virtual_stages"`
	Microbatches  int    `json:"microbatches"`
	DataParallel  int    `json:"data_parallel"`
	// TensorParallel is the size of a tensor-parallel group, which is one rank.
	TensorParallel int `json:"tensor_parallel"`
	Devices        int `json:"devices,omitempty"` // over all replicas
	// StepTime is with the optimizer, Makespan without it. Times of a measured
	// result are means over its steps (see Measurement).
	StepTime float64 `json:"step_time_s"`
	Makespan float64 `json:"makespan_s"`
	Bubble   Bubble  `json:"bubble"`
	// SteadyMicrobatch is the time per microbatch without fill and drain, where
	// the schedule has no flush (pipedream).
	SteadyMicrobatch float64    `json:"steady_microbatch_s,omitempty"`
	Throughput       Throughput `json:"throughput"`
	// Work is what is known of a [model] and its device, in the same JSON object.
	Work
	Ranks      []RankResult `json:"ranks"`
	Groups     []Group      `json:"groups,omitempty"`
	FitsMemory bool         `json:"fits_memory"`
	// MemoryVerdict is one of the verdicts; empty where no limit is known.
	MemoryVerdict string `json:"memory_verdict,omitempty"`
	// MemoryMargin is the share of the devices' memory that is no part of the
	// ranks' capacity.
	MemoryMargin float64 `json:"memory_margin,omitempty"`
	// WouldFit are changes that make fit what does not.
	WouldFit []Remedy `json:"would_fit,omitempty"`
	Tasks    int      `json:"tasks"` // messages included
	// CriticalPath is what the step time is made of; nil where it is not known.
	CriticalPath *CriticalPath `json:"critical_path,omitempty"`
	// Search says how good an order is that was searched for; nil for others.
	Search *Search `json:"search,omitempty"`
	// Measurement is what only a measured result has, in the same JSON object;
	// nil for a prediction.
	*Measurement
	// Predicted is the prediction that was made before the run.
	Predicted *Result `json:"predicted,omitempty"`
	// Runs are the results of all modes, where several ran.
	Runs []Result `json:"runs,omitempty"`
	// Build and Simulation are how long psim itself took. They differ from
	// run to run, so they are nil in every file.
	Build      *float64 `json:"build_s,omitempty"`
	Simulation *float64 `json:"simulation_s,omitempty"`
	Warnings   []string `json:"warnings"`
	// Config is the configuration with its defaults, as tables and keys of TOML.
	Config map[string]any `json:"config,omitempty"`
}

// A Remedy is settings under which every rank's memory suffices, and what is
// predicted with them.
type Remedy struct {
	Set        []string `json:"set"` // KEY=VALUE, as psim run --set takes them
	PeakMemory int64    `json:"peak_memory_bytes"`
	StepTime   float64  `json:"step_time_s"`
	Devices    int      `json:"devices"`
}

// Bubble is the idle share of the ranks' time, from 0 to 1: of the makespan,
// and of the longest of the ranks' own spans.
type Bubble struct {
	Makespan float64 `json:"makespan"`
	Span     float64 `json:"span"`
}

// Search is the outcome of a search for an order: its longest span and a bound
// that no order's is below, in seconds, the gap between them as a fraction of the
// bound, and the order, a line for each rank.
type Search struct {
	LowerBound float64  `json:"lower_bound_s"`
	Span       float64  `json:"span_s"`
	Gap        float64  `json:"gap"`
	Order      []string `json:"order"`
}

// Throughput is the work of a step divided by the step time, so of a measured result
// all samples of its steps over all their time. Tokens are 0 for
// networks that have none.
type Throughput struct {
	Samples float64 `json:"samples_per_s"`
	Tokens  float64 `json:"tokens_per_s"`
}

// A RankResult is one rank's share of a Result. Compute, ExposedCommunication,
// Optimizer and Idle add up to the step time.
type RankResult struct {
	Rank                 int     `json:"rank"`
	Compute              float64 `json:"compute_s"`
	Communication        float64 `json:"communication_s"`
	ExposedCommunication float64 `json:"exposed_communication_s"`
	Optimizer            float64 `json:"optimizer_s"`
	Idle                 float64 `json:"idle_s"`
	// Dispatch and Waiting add up to Idle; nil where the trace does not know
	// when tasks were ready.
	Dispatch         *float64 `json:"dispatch_s,omitempty"`
	Waiting          *float64 `json:"waiting_s,omitempty"`
	PeakMemory       int64    `json:"peak_memory_bytes"`
	PersistentMemory int64    `json:"persistent_memory_bytes"`
	// Memory is what the peak holds; nil where no memory was modelled.
	Memory *MemoryBytes `json:"memory_bytes,omitempty"`
	// MemoryCapacity is 0 where no limit is known.
	MemoryCapacity int64 `json:"memory_capacity_bytes,omitempty"`
	PeakInFlight   int   `json:"peak_in_flight"`
	SentBytes      int64 `json:"sent_bytes"`
}

// Info is what a Result says that its trace does not.
type Info struct {
	Name, Schedule               string
	Stages, VirtualStages        int
	Microbatches                 int
	DataParallel, TensorParallel int
	Samples, Tokens              int64 // per step, over all replicas
	Work                         Work
	Config                       map[string]any
	Limits                       Limits
	// Sequence: tensor-parallel groups divide the sequence as well.
	Sequence bool
	// Memory divides the peak of every rank by what it holds; nil, and what it returns,
	// where that is not known.
	Memory   func(*graph.Trace, graph.Summary) []MemoryBytes
	Warnings []string
}

// NewResult puts the metrics of a trace in the form of result.json. A rank
// whose peak exceeds its capacity adds a warning.
func NewResult(kind string, t *graph.Trace, s graph.Summary, info Info) Result {
	r := Result{
		Schema: Schema, Kind: kind, Name: info.Name, Schedule: info.Schedule,
		Stages: info.Stages, VirtualStages: info.VirtualStages, Microbatches: info.Microbatches,
		DataParallel: info.DataParallel, TensorParallel: info.TensorParallel, Devices: len(s.Ranks) * max(1, info.TensorParallel),
		StepTime: s.StepTime.Seconds(), Makespan: s.Makespan.Seconds(),
		Bubble: Bubble{Makespan: s.Bubble.Makespan, Span: s.Bubble.Span}, SteadyMicrobatch: s.SteadyMicrobatch.Seconds(),
		Work: info.Work, Ranks: make([]RankResult, len(s.Ranks)), Groups: groups(t, info),
		Tasks: len(t.Graph.Tasks), MemoryMargin: info.Limits.Margin,
		Warnings: append([]string{}, info.Warnings...), Config: info.Config,
	}
	r.setRates(info.Samples, info.Tokens)
	var memory []MemoryBytes
	if info.Memory != nil {
		memory = info.Memory(t, s)
	}
	for i, rank := range s.Ranks {
		r.Ranks[i] = RankResult{
			Rank: rank.Rank, Compute: rank.Compute.Seconds(), Optimizer: rank.Optimizer.Seconds(), Idle: rank.Idle.Seconds(),
			Communication: rank.Communication.Seconds(), ExposedCommunication: rank.ExposedCommunication.Seconds(),
			PeakMemory: rank.PeakMemory, PersistentMemory: rank.PersistentMemory,
			PeakInFlight: rank.PeakInFlight, SentBytes: rank.SentBytes,
		}
		if t.Ready != nil {
			dispatch, waiting := rank.Dispatch.Seconds(), rank.Waiting.Seconds()
			r.Ranks[i].Dispatch, r.Ranks[i].Waiting = &dispatch, &waiting
		}
		if memory != nil {
			r.Ranks[i].Memory = &memory[i]
		}
	}
	r.checkMemory(info.Limits)
	return r
}

// PeakMemory is the highest memory of any rank.
func (r Result) PeakMemory() int64 {
	var peak int64
	for _, rank := range r.Ranks {
		peak = max(peak, rank.PeakMemory)
	}
	return peak
}
