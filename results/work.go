package results

// Work is the computation of a step, and how well it uses the devices. It is known where the
// configuration has a [model]. A field that has no meaning for the run is 0.
type Work struct {
	Parameters int64 `json:"parameters,omitempty"` // of the network, shared ones counted once
	// Those that a token goes through: fewer in a mixture of experts.
	ActiveParameters int64  `json:"active_parameters,omitempty"`
	Read             bool   `json:"-"`                         // the network was read from a file
	SequenceLength   int    `json:"sequence_length,omitempty"` // tokens of a sample of a language model
	Precision        string `json:"precision,omitempty"`       // of training: fp32, fp16, bf16
	Device           string `json:"device,omitempty"`          // its name in the catalog (psim list devices), or inline
	Stack            string `json:"stack,omitempty"`           // the program that trains, as train.stack; absent for none
	// Floating-point operations of a step by definition: three times the forward's
	// matrix products, with attention over the whole square and nothing that is
	// computed again (Chowdhery et al. 2022, PaLM, appendix B).
	ModelFLOPs float64 `json:"model_flops,omitempty" unit:"FLOP"`
	// Those of a step that all devices execute, recomputation included (Korthikanti
	// et al. 2022, section 6), and of fused attention what its kernel covers of the square:
	// so without recomputation they may be fewer than model_flops.
	HardwareFLOPs float64 `json:"hardware_flops,omitempty" unit:"FLOP"`
	// Peak of a device for dense products in the precision: of its datasheet, or what
	// [machine.compute] says of a device described in place.
	PeakFLOPs float64 `json:"peak_flops,omitempty" unit:"FLOP/s"`
	// Model FLOPs utilization: model_flops over the step time and the peak of all devices.
	MFU float64 `json:"mfu,omitempty" unit:"fraction"`
	// Hardware FLOPs utilization: the same of hardware_flops.
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
