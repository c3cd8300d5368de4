// Package results is the saved form of a run: Result has its metrics, predicted or measured,
// as they are in result.json. NewResult and NewMeasured make a Result of traces; Load reads a
// saved run with its trace.
//
// Below it, compare compares two runs, rankings holds the plans of a search and the points of
// a sweep, collectives the times of a collective alone, tracecsv reads and writes traces, and
// schema describes the fields of a result.
//
// Equal input gives equal bytes.
package results

import (
	"fmt"
	"math"
	"slices"
	"time"

	"psim/schedules/graph"
)

// The kinds of result.
const (
	Predicted = "predicted"
	Measured  = "measured"
)

// Schema is the version of the format of results.
const Schema = 1

// A Result is the content of result.json: the metrics of one step, predicted or measured.
// Times are in seconds and memory in bytes. A number that is absent from the file is 0.
type Result struct {
	Schema   int    `json:"schema"`                          // version of this format: 1
	Kind     string `json:"kind" oneof:"predicted,measured"` // whether it was predicted or measured
	Name     string `json:"name"`                            // name of the configuration
	Schedule string `json:"schedule"`                        // name of the schedule; ddp also for FSDP
	// True if ddp shards parameters layer by layer: FSDP.
	FullySharded bool `json:"fully_sharded,omitempty"`
	// Replicas among which states are sharded, if they are fewer than all: with fully_sharded, hybrid sharding (HSDP).
	ZeroGroup     int `json:"zero_group,omitempty"`
	Stages        int `json:"stages"`         // pipeline ranks of one replica
	VirtualStages int `json:"virtual_stages"` // stages of a rank
	Microbatches  int `json:"microbatches"`   // microbatches of a replica in a step
	DataParallel  int `json:"data_parallel"`  // number of replicas
	// Devices of a tensor-parallel group. Such a group is one rank.
	TensorParallel int `json:"tensor_parallel"`
	// Parts into which every sequence is divided, if there are several. They are on one rank.
	ContextParallel int `json:"context_parallel,omitempty"`
	// Devices that hold the experts of a layer, if there are several.
	ExpertParallel int `json:"expert_parallel,omitempty"`
	Devices        int `json:"devices,omitempty"` // number of devices, over all replicas
	// Time of a step with the optimizer. Times of a measured result are means over its steps.
	StepTime float64 `json:"step_time_s"`
	// How far off the predicted step time may be, with a stack.
	Interval *interval `json:"interval,omitempty"`
	// Why there is no interval, with a stack.
	IntervalMissing string `json:"interval_missing,omitempty"`
	// Part of the step time before any computation, if the step is the first of a training and
	// begins with a broadcast of the parameters (parallel.broadcast). Rates and epochs are of
	// the later steps, without this part.
	Startup  float64 `json:"startup_s,omitempty"`
	Makespan float64 `json:"makespan_s"` // time of a step before the optimizer
	// Idle share of the ranks' time; only F, B, I and W count as work. Absent if a file of
	// another program does not say it.
	Bubble BubbleResult `json:"bubble,omitzero"`
	// Time per microbatch without fill and drain, if the schedule does not flush
	// (pipedream).
	SteadyMicrobatch float64 `json:"steady_microbatch_s,omitempty"`
	// Work over time. For a measured result it is all samples of its steps over all their
	// time.
	Throughput Throughput `json:"throughput"`
	Epochs     *Epochs    `json:"epochs,omitempty"` // passes over the data set, if its size is known
	Work
	// One entry for each stage rank of every replica. The devices of a tensor-parallel group,
	// or of several groups that divide sequences, are one rank.
	Ranks []RankResult `json:"ranks"`
	// Memory of the nodes, if machine.memory_per_node is given.
	Nodes  []NodeResult   `json:"nodes,omitempty"`
	Groups []groupTraffic `json:"groups,omitempty"` // communication in a step, by kind of group
	// Tensors that pass between stages, with --boundaries.
	Boundaries []StageBoundary  `json:"boundaries,omitzero"`
	Shards     []ReplicaSamples `json:"shards,omitempty"` // samples of every replica, with --shards
	// Whether every peak is within the memory of its device, and the peaks of every node are
	// within the memory of the node.
	FitsMemory bool `json:"fits_memory"`
	// Whether the highest peaks are within the memory less machine.memory_margin (fits),
	// within the memory (close) or above it; absent if no limit is known. With a margin of 0,
	// a peak above 0.87 of the memory of a GPU or TPU is close.
	MemoryVerdict string `json:"memory_verdict,omitempty" oneof:"fits,close,does not fit"`
	// Share of the memory that should stay free.
	MemoryMargin float64  `json:"memory_margin,omitempty" unit:"fraction"`
	WouldFit     []Remedy `json:"would_fit,omitempty"` // changes with which the memory would suffice
	// Ways to fine-tune a network that was named without a plan, where the assumed plan does not fit.
	FineTuning []Remedy `json:"fine_tuning,omitempty"`
	Tasks      int      `json:"tasks"` // number of tasks of the graph, including messages
	// Parts of the step time, along the chain of tasks that determines it.
	CriticalPath *CriticalPath `json:"critical_path,omitempty"`
	// Parts of the step time by class of work, and the settings that price them, with
	// --explain.
	Explain *Explanation `json:"explain,omitempty"`
	Search  *FoundOrder  `json:"search,omitempty"` // how good the order is, if it was searched for
	*Measurement
	Predicted *Result  `json:"predicted,omitempty"` // the prediction that was made before a measured run
	Runs      []Result `json:"runs,omitempty"`      // results of all modes, if several ran
	// Time that psim took to build the graph. It is only on stdout, not in files, because it
	// differs from run to run.
	Build *float64 `json:"build_s,omitempty"`
	// Time that psim took to simulate the graph. It is only on stdout, not in files.
	Simulation *float64 `json:"simulation_s,omitempty"`
	Warnings   []string `json:"warnings"` // doubts that did not stop the run
	// The configuration with its defaults and the content of its files, as tables and keys of
	// TOML: psim help config describes them. Paths are as they were given.
	Config map[string]any `json:"config,omitempty"`
}

// A Remedy holds settings with which every rank's memory suffices, and the prediction with
// them.
type Remedy struct {
	Set        []string `json:"set"`               // KEY=VALUE, as --set takes them
	PeakMemory int64    `json:"peak_memory_bytes"` // highest peak of any rank
	StepTime   float64  `json:"step_time_s"`       // time of a step with the optimizer
	// Work over time, over all replicas; absent without a network. Steps of remedies may differ in
	// their number of samples.
	Samples float64 `json:"samples_per_s,omitempty"`
	Devices int     `json:"devices"` // number of devices, over all replicas
	// Whether the peak is within the memory and leaves too little of it free, so that the
	// verdict is close.
	Close bool `json:"close,omitempty"`
	// Flags besides the settings: those with which psim search finds them, or --devices, which
	// replaces that of psim run.
	Flags []string `json:"flags,omitempty"`
	// Of a way to fine-tune: what is trained, and with which optimizer.
	Training string `json:"training,omitempty"`
	// Of a way to fine-tune: one device, DDP, FSDP, pipeline or tensor group.
	Layout string `json:"layout,omitempty"`
	// Of a way to fine-tune: the memory that a rank may use.
	MemoryCapacity int64 `json:"memory_capacity_bytes,omitempty"`
	// Of a way to fine-tune: whether the peak is within that memory.
	Fits *bool `json:"fits,omitempty"`
	// Of a way to fine-tune: tokens per second over all devices.
	Tokens float64 `json:"tokens_per_s,omitempty" unit:"per second"`
	// Of a way to fine-tune: tokens of a sample, if fewer than those of the run.
	SequenceLength int `json:"sequence_length,omitempty"`
}

// Remedy returns settings with which a run has this result.
func (r Result) Remedy(sets []string) *Remedy {
	return &Remedy{
		Set: sets, PeakMemory: r.PeakMemory(), StepTime: r.StepTime, Samples: r.Throughput.Samples,
		Devices: r.Devices, Close: r.MemoryVerdict == Close,
	}
}

// Adapter names the adapters that are trained, such as "LoRA r 16"; "" if there are none.
func (r Result) Adapter() string {
	train, _ := r.Config["train"].(map[string]any)
	adapter, _ := train["adapter"].(map[string]any)
	name := map[any]string{"lora": "LoRA", "qlora": "QLoRA"}[adapter["kind"]]
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%s r %v", name, adapter["rank"])
}

// BubbleResult is the idle share of the ranks' time, from 0 to 1.
type BubbleResult struct {
	Makespan float64 `json:"makespan" unit:"fraction"` // share of the makespan
	// Share of the longest span of a rank, from the start of its first compute task to the
	// end of its last, as in the zero-bubble papers (Qi et al. 2023).
	Span float64 `json:"span" unit:"fraction"`
}

// UnknownBubble returns a bubble that is not known. Files leave it out.
func UnknownBubble() BubbleResult { return BubbleResult{math.NaN(), math.NaN()} }

// IsZero reports whether the bubble is unknown, for encoding/json's omitzero. A bubble of 0
// is known.
func (b BubbleResult) IsZero() bool { return math.IsNaN(b.Makespan) }

// A FoundOrder is the outcome of a search for an order.
type FoundOrder struct {
	LowerBound float64  `json:"lower_bound_s"`       // lower bound on the longest span of any order
	Span       float64  `json:"span_s"`              // longest span of a rank in this order
	Gap        float64  `json:"gap" unit:"fraction"` // by how much the span exceeds the bound
	Order      []string `json:"order"`               // actions of every rank: 0F0 is stage 0, forward, microbatch 0
}

// Throughput is the work of a step divided by the step time. For a measured result it is all
// samples of the steps divided by their total time.
type Throughput struct {
	Samples float64 `json:"samples_per_s"` // samples per second, over all replicas
	Tokens  float64 `json:"tokens_per_s"`  // tokens per second; 0 for networks without tokens
}

// A RankResult is one rank's share of a Result. Compute, ExposedCommunication,
// Optimizer and Idle add up to the step time.
type RankResult struct {
	Rank int `json:"rank"` // number of the rank, from 0, replica by replica
	// The samples of its replica in a step, if replicas have unequal shares.
	Samples int64   `json:"samples,omitempty"`
	Compute float64 `json:"compute_s"` // time of F, B, I, W and losses
	// Time in which a message or collective of the rank runs, or gradients are averaged.
	Communication float64 `json:"communication_s"`
	// Part of communication_s in which the rank neither computes nor runs the optimizer. With
	// compute_s, optimizer_s and idle_s it adds up to the step time.
	ExposedCommunication float64 `json:"exposed_communication_s"`
	Optimizer            float64 `json:"optimizer_s"` // time of updates of the parameters, and of zeroing gradients
	Idle                 float64 `json:"idle_s"`      // time in which nothing runs
	// Part of idle_s in which a task was ready, but the device waited for its host.
	Dispatch   *float64 `json:"dispatch_s,omitempty"`
	Waiting    *float64 `json:"waiting_s,omitempty"` // the rest of idle_s, in which the rank waits for other ranks
	PeakMemory int64    `json:"peak_memory_bytes"`   // highest level of memory in the step
	// Memory that stays allocated from step to step: parameters, gradients and optimizer
	// states.
	PersistentMemory int64        `json:"persistent_memory_bytes"`
	Memory           *MemoryBytes `json:"memory_bytes,omitempty"` // parts of the peak, which add up to it
	// Memory of a device less the margin; absent if it is not known.
	MemoryCapacity int64 `json:"memory_capacity_bytes,omitempty"`
	// Largest number of activations held at once, each from the start of F to the end of B or
	// W.
	PeakInFlight int   `json:"peak_in_flight"`
	SentBytes    int64 `json:"sent_bytes"` // bytes that each device sends in a step; collectives count as rings
}

// IdleParts splits the idle time. Both parts are 0 if the split is unknown.
func (r RankResult) IdleParts() (dispatch, waiting float64) {
	return orZero(r.Dispatch), orZero(r.Waiting)
}

// orZero returns a number, and 0 for one that is unknown.
func orZero(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// Info is the part of a Result that does not follow from its trace.
type Info struct {
	Name, Schedule               string
	Stages, VirtualStages        int
	Microbatches                 int
	DataParallel, TensorParallel int
	ZeroGroup                    int     // replicas among which states are sharded; 0: all
	ContextParallel              int     // devices that share a sequence; 0 or 1: sequences are whole
	ContextCollective            string  // used for attention between the parts of a sequence
	ExpertParallel               int     // devices that share experts; 0 or 1: every device has all experts
	Samples, Tokens              int64   // per step, over all replicas
	Shards                       []int64 // the samples of each replica if they differ, else nil
	DataSet                      int64   // samples of the data set; 0 if unknown
	// LastStep is the time of an epoch's last step by itself, if it is smaller than the others
	// and not filled up; otherwise 0.
	LastStep         time.Duration
	Work             Work
	Config           map[string]any
	Limits           Limits
	SequenceParallel bool // tensor-parallel groups divide the sequence as well
	// Memory splits the peak of every rank into its parts. It is nil, or returns nil, if the
	// parts are unknown.
	Memory   func(*graph.Trace, graph.Summary) []MemoryBytes
	Warnings []string
}

// NewResult makes a Result of a trace and its summary. A rank whose peak exceeds its capacity
// adds a warning.
func NewResult(kind string, t *graph.Trace, s graph.Summary, info Info) Result {
	r := Result{
		Schema: Schema, Kind: kind, Name: info.Name, Schedule: info.Schedule, FullySharded: t.Graph.FullySharded,
		ZeroGroup: info.ZeroGroup,
		Stages:    info.Stages, VirtualStages: info.VirtualStages, Microbatches: info.Microbatches,
		DataParallel: info.DataParallel, TensorParallel: info.TensorParallel,
		StepTime: s.StepTime.Seconds(), Startup: s.Startup.Seconds(), Makespan: s.Makespan.Seconds(),
		Bubble:           BubbleResult{Makespan: s.Bubble.Makespan, Span: s.Bubble.Span},
		SteadyMicrobatch: s.SteadyMicrobatch.Seconds(),
		Work:             info.Work, Groups: groups(t, info),
		Tasks: t.Graph.Size(), MemoryMargin: info.Limits.Margin,
		Warnings: append([]string{}, info.Warnings...), Config: info.Config,
	}
	r.setRanks(t, s, info)
	r.setDevices(info)
	r.setRates(info.Samples, info.Tokens)
	r.predictEpochs(info)
	r.checkMemory(info.Limits)
	return r
}

// setRanks adds the ranks of a trace.
func (r *Result) setRanks(t *graph.Trace, s graph.Summary, info Info) {
	var memory []MemoryBytes
	if info.Memory != nil {
		memory = info.Memory(t, s)
	}
	r.Ranks = make([]RankResult, len(s.Ranks))
	for i, rank := range s.Ranks {
		r.Ranks[i] = RankResult{
			Rank: rank.Rank, PeakMemory: rank.PeakMemory, PersistentMemory: rank.PersistentMemory,
			PeakInFlight: rank.PeakInFlight, SentBytes: rank.SentBytes,
		}
		r.Ranks[i].setTimes(rank, t.KnowsReady())
		if info.Shards != nil {
			r.Ranks[i].Samples = info.Shards[i*len(info.Shards)/len(s.Ranks)]
		}
		if memory != nil {
			r.Ranks[i].Memory = &memory[i]
		}
	}
}

// setTimes takes over the times of a rank. Idle time is split only if a trace knows when tasks were
// ready.
func (r *RankResult) setTimes(s graph.RankSummary, split bool) {
	r.Compute, r.Optimizer, r.Idle = s.Compute.Seconds(), s.Optimizer.Seconds(), s.Idle.Seconds()
	r.Communication, r.ExposedCommunication = s.Communication.Seconds(), s.ExposedCommunication.Seconds()
	r.Dispatch, r.Waiting = nil, nil
	if split {
		dispatch, waiting := s.Dispatch.Seconds(), s.Waiting.Seconds()
		r.Dispatch, r.Waiting = &dispatch, &waiting
	}
}

// setDevices sets the number of devices, and the sizes of groups that have several.
func (r *Result) setDevices(info Info) {
	if info.ContextParallel > 1 {
		r.ContextParallel = info.ContextParallel
	}
	if info.ExpertParallel > 1 {
		r.ExpertParallel = info.ExpertParallel
	}
	r.Devices = len(r.Ranks) * r.DevicesPerRank()
}

// DevicesPerRank returns the number of devices of a rank.
func (r Result) DevicesPerRank() int { return max(1, r.TensorParallel) * max(1, r.ContextParallel) }

// HasBreakdown reports whether the result says what the ranks did during the step. The file
// of another program may say only how long the step took.
func (r Result) HasBreakdown() bool {
	return r.StepTime == 0 || slices.ContainsFunc(r.Ranks, func(x RankResult) bool {
		return x.Compute+x.ExposedCommunication+x.Optimizer+x.Idle > 0
	})
}

// PeakMemory returns the highest peak of any rank.
func (r Result) PeakMemory() int64 {
	var peak int64
	for _, rank := range r.Ranks {
		peak = max(peak, rank.PeakMemory)
	}
	return peak
}

// SamplesPerDevice returns the throughput of one device, in samples.
func (r Result) SamplesPerDevice() float64 { return r.Throughput.Samples / float64(r.Devices) }
