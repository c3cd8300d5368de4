package results

import (
	"fmt"
	"math"
)

// Work is the computation of a step, and how well it uses the devices. It is known if the
// configuration has a [model]. A field that is meaningless for the run is 0.
type Work struct {
	Parameters int64 `json:"parameters,omitempty"` // parameters of the network; shared ones count once
	// Parameters that are used for a token, which are fewer in a mixture of experts.
	ActiveParameters int64 `json:"active_parameters,omitempty"`
	// Parameters that training changes; absent if it changes all.
	TrainedParameters int64  `json:"trained_parameters,omitempty"`
	Read              bool   `json:"-"`                         // the network was read from a file
	Windows           bool   `json:"-"`                         // attention has windows; model_flops count their inside
	SequenceLength    int    `json:"sequence_length,omitempty"` // tokens in a sample of a language model
	Precision         string `json:"precision,omitempty"`       // precision of training: fp32, fp16 or bf16
	Device            string `json:"device,omitempty"`          // name in the catalog (psim list devices), or inline
	// The program that trains, as in train.stack; absent for none.
	Stack string `json:"stack,omitempty"`
	// Floating-point operations of a step by definition: three times the matrix products of
	// the forward, with attention over the whole square and without recomputation
	// (Chowdhery et al. 2022, PaLM, appendix B). Attention with a window counts its tokens
	// for each token, not the square. Products with frozen weights count twice.
	ModelFLOPs float64 `json:"model_flops,omitempty" unit:"FLOP"`
	// Floating-point operations of a step that all devices execute, including recomputation
	// (Korthikanti et al. 2022, section 6). Fused attention counts only the part of the square
	// that its kernel computes, so that without recomputation this may be less than
	// model_flops.
	HardwareFLOPs float64 `json:"hardware_flops,omitempty" unit:"FLOP"`
	// Peak of a device for dense products in the precision, from its datasheet, or from
	// [machine.compute] for a device that the configuration describes.
	PeakFLOPs float64 `json:"peak_flops,omitempty" unit:"FLOP/s"`
	// Model FLOPs utilization: model_flops divided by the step time and the peak of all
	// devices.
	MFU float64 `json:"mfu,omitempty" unit:"fraction"`
	// Hardware FLOPs utilization: the same for hardware_flops.
	HFU float64 `json:"hfu,omitempty" unit:"fraction"`
	// Tokens per second divided by the devices.
	TokensPerDevice float64 `json:"tokens_per_s_per_device,omitempty" unit:"per second"`
}

// setRates sets the rates that follow from the step time, given the samples and tokens of a
// step.
func (r *Result) setRates(samples, tokens int64) {
	perSecond := func(n float64) float64 {
		if r.StepTime <= r.Startup {
			return 0
		}
		return n / (r.StepTime - r.Startup)
	}
	r.Throughput = Throughput{Samples: perSecond(float64(samples)), Tokens: perSecond(float64(tokens))}
	r.MFU, r.HFU, r.TokensPerDevice = 0, 0, 0
	if r.Devices == 0 {
		return
	}
	r.TokensPerDevice = r.Throughput.Tokens / float64(r.Devices)
	if peak := r.PeakFLOPs * float64(r.Devices); peak > 0 {
		r.MFU, r.HFU = perSecond(r.ModelFLOPs)/peak, perSecond(r.HardwareFLOPs)/peak
	}
}

// MicrobatchesPerSecond returns the throughput of all replicas, in microbatches.
func (r Result) MicrobatchesPerSecond() float64 {
	if r.StepTime <= r.Startup {
		return 0
	}
	return float64(r.Microbatches) * float64(max(1, r.DataParallel)) / (r.StepTime - r.Startup)
}

// StepSamples returns the samples of a step over all replicas, of measured steps on average. It
// is 0 if they are not known.
func (r Result) StepSamples() float64 {
	const digits = 1e6 // beyond which there is only rounding
	return math.Round(digits*r.Throughput.Samples*(r.StepTime-r.Startup)) / digits
}

// StagesWithTimes returns the number of stages whose times [times] gives, and 0 for a network.
func (r Result) StagesWithTimes() int {
	if _, given := r.Config["times"]; !given {
		return 0
	}
	return r.Stages * max(1, r.VirtualStages)
}

// SameTimes reports whether [times] gives the passes of both runs the same times.
func (r Result) SameTimes(other Result) bool {
	x, _ := r.Config["times"].(map[string]any)
	y, _ := other.Config["times"].(map[string]any)
	for _, key := range []string{"forward", "backward", "backward_input", "backward_weight"} {
		if fmt.Sprint(x[key]) != fmt.Sprint(y[key]) {
			return false
		}
	}
	return x != nil && y != nil
}
