package understood

import (
	"cmp"
	"math"
)

// LoggedSteps is what a log says of the steps that ran.
type LoggedSteps struct {
	Program    string  `json:"program"`         // whose log it is
	StepTime   float64 `json:"step_time_s"`     // 0 where only a configuration can tell it from a printed rate
	How        string  `json:"how"`             // how the step was found, in words
	Lines      int     `json:"lines"`           // that count
	Batch      int     `json:"global_batch"`    // samples of a step; 0 where the log does not say it
	Tokens     int     `json:"sequence_length"` // of a sample; 0 where the log does not say it
	Said       int     `json:"said_batch"`      // what the arguments say of it; 0 if they say nothing
	Left       int     `json:"other_lines"`     // of a start, or of other batches, as while the batch grows
	Throughput float64 `json:"throughput_tflop_per_s,omitempty"`
	// Recomputed is the throughput by the program's own formula and the arguments that psim read. If
	// the two differ, a setting was misread.
	Recomputed float64 `json:"recomputed_tflop_per_s,omitempty"`
	// Rate is what a program prints in place of a throughput.
	Rate *PrintedRate `json:"rate,omitempty"`
	// Lost is the time between lines that no step took: evaluation, saving, restarts.
	Lost float64 `json:"lost_s,omitempty"`
	// Stamped is a step by the time stamps of lines, where the step above is by a rate. Time between steps is in it.
	Stamped float64 `json:"stamped_step_s,omitempty"`
	// Allocated and Reserved are the highest peaks of memory that are printed, of tensors and of PyTorch's allocator.
	Allocated int64    `json:"allocated_bytes,omitempty"`
	Reserved  int64    `json:"reserved_bytes,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// Parameters is how many the program trains, by its log or its printed configuration, and Devices how many the log
	// shows; 0 where it does not.
	Parameters int64 `json:"parameters,omitempty"`
	Devices    int   `json:"devices,omitempty"`
	// Rounds is how many microbatches' gradients a device sums in a step, where the log says it.
	Rounds int `json:"gradient_accumulation_steps,omitempty"`
	// Settings are keys that the log's printed configuration gives otherwise than the one that it is held against.
	Settings []Difference `json:"settings,omitempty"`
	// Plan is what psim read of the settings; zero before Complete.
	Plan LoggedPlan `json:"-"`
}

// A PrintedRate is what a program prints of its speed.
type PrintedRate struct {
	Counts string  `json:"counts"` // what the program calls it
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	// Recomputed is the rate by the step and the settings that psim read; 0 where nothing but the rate tells the step.
	Recomputed float64 `json:"recomputed,omitempty"`
	// Source says that the step is of this rate, so that agreement of the two shows nothing.
	Source bool `json:"step_of_rate,omitempty"`
	// Over is the time of a step that the rate is of, if it is not that of the log's step.
	Over float64 `json:"over_s,omitempty"`
	// Partial is the share of steps that may have fewer samples: the last ones of epochs.
	Partial float64 `json:"partial,omitempty"`
}

// The units of a PrintedRate.
const (
	TokensPerSecond  = "tokens/s a device"
	SamplesPerSecond = "samples/s"
)

// A LoggedPlan is what a printed rate depends on.
type LoggedPlan struct {
	Samples int // of a step
	Tokens  int // of a sample
	Devices int
	// Microbatches are those of a replica in a step; 0 where that is not known.
	Microbatches int
	// Replicas are the devices that take different samples.
	Replicas int
	// Parameters are those that are trained; 0 without a network.
	Parameters int64
}

// Note adds a sentence; "" adds nothing.
func (m *LoggedSteps) Note(text string) {
	if text != "" {
		m.Notes = append(m.Notes, text)
	}
}

// Complete computes a printed rate again from a plan, and the step from the rate where nothing else tells it.
func (m *LoggedSteps) Complete(plan LoggedPlan) {
	m.Plan = plan
	if m.Said = plan.Samples; m.Batch == 0 {
		m.Batch = plan.Samples
	}
	r := m.Rate
	if r == nil || r.Value <= 0 {
		return
	}
	work := func(samples, tokens int) float64 {
		if r.Unit == TokensPerSecond {
			return float64(samples) * float64(tokens) / float64(max(1, plan.Devices))
		}
		return float64(samples)
	}
	switch {
	case r.Over > 0:
		r.Recomputed = work(plan.Samples, plan.Tokens) / r.Over
	case m.StepTime > 0:
		r.Recomputed = work(plan.Samples, plan.Tokens) / m.StepTime
	default:
		m.StepTime = work(m.Batch, cmp.Or(m.Tokens, plan.Tokens)) / r.Value
	}
}

// Misread reports whether what the program prints of its speed is more than a hundredth off what psim makes of its
// arguments.
func (m *LoggedSteps) Misread() bool {
	if m.Rate != nil && m.Rate.misread() {
		return true
	}
	return m.outlasts() || m.Rate == nil && m.offRate()
}

// outlasts reports whether a step takes more than all the time that there was.
func (m *LoggedSteps) outlasts() bool { return m.Stamped > 0 && m.StepTime > 1.01*m.Stamped }

// offRate reports whether the printed throughput is not that of the arguments.
func (m *LoggedSteps) offRate() bool {
	return m.Throughput > 0 && m.Recomputed > 0 && math.Abs(m.Recomputed/m.Throughput-1) > 0.01
}

// misread reports whether a rate is more than a hundredth off what the settings give.
func (r *PrintedRate) misread() bool {
	off := r.Recomputed / r.Value
	return r.Recomputed > 0 && (off < 0.99 || off > 1.01/(1-min(r.Partial, 0.5)))
}
