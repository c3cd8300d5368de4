// Package judged is a measured step that was held against its prediction, and what would explain it.
package judged

import "psim/results/rankings"

// A Judgment is a measured step, held against the prediction of its configuration.
type Judgment struct {
	Verdict   string  `json:"verdict" oneof:"inside,slow,fast,inconsistent,incomparable"`
	Measured  float64 `json:"measured_s"`
	Predicted float64 `json:"predicted_s"`
	// OtherWork says how the log's step differs in work, and OtherPlan what else the log says otherwise than the
	// configuration.
	OtherWork []string `json:"other_work,omitempty"`
	OtherPlan []string `json:"other_plan,omitempty"`
	// Misread says which numbers of the log do not go together: psim read one of them wrong, or the program counts
	// otherwise.
	Misread []string `json:"misread,omitempty"`
	// Interval is that of the prediction; nil without evidence, and Missing says why.
	Interval *Interval `json:"interval,omitempty"`
	Missing  string    `json:"interval_missing,omitempty"`
	// Rate is the rate of the measured step over the peak of the device's products, with what is computed
	// again; Reach is the share of it that large products reach; 0 where there is no network.
	Rate  float64 `json:"rate,omitempty"`
	Reach float64 `json:"reach,omitempty"`
	// Lost is the time of the log that no step took; Memory is what the log says of memory.
	Lost   float64       `json:"lost_s,omitempty"`
	Memory *LoggedMemory `json:"memory,omitempty"`
	// Profile is what traces of the run say of a step. ByClass is what its time and that of the prediction went to:
	// means over the ranks, which add up to the step.
	Profile *Profiled   `json:"profile,omitempty"`
	ByClass []ClassTime `json:"by_class,omitempty"`
	// Assumptions are settings that the run may have had, each with the step that it gives, the one that comes
	// nearest to what was measured first.
	Assumptions []Assumption `json:"assumptions,omitempty"`
	// Changes are what single changes would give, the shortest step first.
	Changes []Gain `json:"changes,omitempty"`
	// Searched: other plans for the same devices were looked through. Better is the fastest, if it is faster, and
	// BetterMeasured the step that it would have here.
	Searched       bool    `json:"searched"`
	Better         *Better `json:"better,omitempty"`
	BetterMeasured float64 `json:"better_measured_s,omitempty"`
	// Patch makes the user's script start the better plan; PatchedLines is how many lines differ. Without a patch,
	// Unpatched says why.
	Patch        string `json:"patch,omitempty"`
	PatchedLines int    `json:"patched_lines,omitempty"`
	Unpatched    string `json:"unpatched,omitempty"`
	Written      string `json:"written,omitempty"` // the file that the better plan went to
}

// A LoggedMemory is the memory that a log prints, in bytes, and the predicted one; 0 where the log does not print it.
type LoggedMemory struct {
	Allocated int64  `json:"allocated_bytes,omitempty"` // the highest peak of tensors
	Tensors   int64  `json:"predicted_tensors_bytes"`   // of the same rank
	Reserved  int64  `json:"reserved_bytes,omitempty"`  // the highest peak of PyTorch's allocator
	Peak      int64  `json:"predicted_peak_bytes"`      // with what a process holds besides tensors
	Capacity  int64  `json:"capacity_bytes,omitempty"`
	Verdict   string `json:"verdict,omitempty"` // of the prediction
}

// An Interval is where a share of such runs should lie, by published runs.
type Interval struct {
	Low      float64 `json:"low_s"`
	High     float64 `json:"high_s"`
	Coverage float64 `json:"coverage"`
	From     string  `json:"from"` // the runs, in words
	Runs     int     `json:"runs"`
	Sources  int     `json:"sources"`
}

// A ClassTime is the time of a step that went to a class of work. Every moment of a rank counts once: as computation,
// or else as update, communication, copy or launch, or else as waiting.
type ClassTime struct {
	Class     string  `json:"class"`
	Predicted float64 `json:"predicted_s"`
	Measured  float64 `json:"measured_s"`
}

// A Profiled is what traces of PyTorch's profiler say of a step: the one in the middle of those that all ranks have.
type Profiled struct {
	StepTime float64 `json:"step_time_s"`
	Step     int     `json:"step"`        // its number
	Found    string  `json:"steps_found"` // how steps were found, in words
	// Steps is how many whole steps there are; without one, the step lasts from its first kernel to its last.
	Steps    int     `json:"steps"`
	Shortest float64 `json:"shortest_s"`
	Longest  float64 `json:"longest_s"`
	Ranks    int     `json:"ranks"`           // whose traces were read
	World    int     `json:"world,omitempty"` // ranks of the run
	Device   string  `json:"device,omitempty"`
	// Configured is the configuration's device where it is another one.
	Configured string `json:"configured_device,omitempty"`
	Host       bool   `json:"host,omitempty"` // there is no GPU: these are operations of CPUs
	// Messages is the part of communication in sends and receives, which last while they wait: idle time of a pipeline
	// is in it.
	Messages float64 `json:"messages_s,omitempty"`
	// Collectives of the step, and of how many the waiting for other ranks is known, since several ranks have them. Of
	// the incomplete ones some ranks have no trace, which may have come later.
	Collectives int     `json:"collectives"`
	Matched     int     `json:"collectives_matched"`
	Incomplete  int     `json:"collectives_incomplete,omitempty"`
	Transfer    float64 `json:"transfer_s,omitempty"` // communication without that waiting
	Skew        float64 `json:"skew_s,omitempty"`     // that waiting
	// Clocks is by how much clocks differed, which was taken out, and Apart by how much ends of collectives still do.
	Clocks float64 `json:"clocks_s,omitempty"`
	Apart  float64 `json:"ends_apart_s,omitempty"`
	Last   *int    `json:"last_rank,omitempty"` // the rank that the others wait for the longest
	Waited float64 `json:"waited_s,omitempty"`  // how long, on average
}

// An Assumption is what a run may have been, otherwise than its configuration says.
type Assumption struct {
	Set      []string `json:"set"`
	Means    string   `json:"means"` // in words
	StepTime float64  `json:"step_time_s"`
}

// A Gain is a change of a configuration. What it would give here is the measured step times the ratio of two
// predictions.
type Gain struct {
	Set          []string `json:"set"`
	StepTime     float64  `json:"step_time_s"`
	MeasuredStep float64  `json:"measured_step_s"`
	// Faster is the probability that the changed run is faster than the one that was measured, by published runs; nil
	// without such.
	Faster *float64 `json:"probability_faster,omitempty"`
}

// A Better plan is the fastest that the program offers for the same devices.
type Better struct {
	rankings.PlanShape
	Set      []string `json:"set"`
	StepTime float64  `json:"step_time_s"`
	Partial  bool     `json:"partial,omitempty"` // the search was cut short
	Faster   *float64 `json:"probability_faster,omitempty"`
}

// The verdicts of a Judgment.
const (
	Inside       = "inside"
	Slow         = "slow"
	Fast         = "fast"
	Inconsistent = "inconsistent"
	Incomparable = "incomparable" // the log's step does other work than the configuration's
)
