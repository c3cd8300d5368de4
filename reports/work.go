package reports

// Work is what a step computes, and how well the devices are used: what is known
// where there is a [model]. Fields without a meaning are zero.
type Work struct {
	// Parameters of the network, shared ones counted once; ActiveParameters are those
	// that a token goes through, which is fewer in a mixture of experts.
	Parameters       int64 `json:"parameters,omitempty"`
	ActiveParameters int64 `json:"active_parameters,omitempty"`
	// SequenceLength is the number of tokens of a sample of a language model.
	SequenceLength int    `json:"sequence_length,omitempty"`
	Precision      string `json:"precision,omitempty"`
	Device         string `json:"device,omitempty"` // its name in the catalog, or inline
	// ModelFLOPs are those of a step by definition: three times the forward's matrix
	// products, attention over the whole square, nothing that is run again
	// (Chowdhery et al. 2022, PaLM, appendix B).
	ModelFLOPs float64 `json:"model_flops,omitempty"`
	// HardwareFLOPs are those that all devices execute in a step, recomputation
	// included (Korthikanti et al. 2022, section 6).
	HardwareFLOPs float64 `json:"hardware_flops,omitempty"`
	// PeakFLOPs is the dense peak of a device per second, in the precision.
	PeakFLOPs float64 `json:"peak_flops,omitempty"`
	// MFU and HFU are the model's and the hardware's FLOPs over the step time and
	// the peak of all devices.
	MFU float64 `json:"mfu,omitempty"`
	HFU float64 `json:"hfu,omitempty"`
	// TokensPerDevice is the throughput in tokens divided by the devices.
	TokensPerDevice float64 `json:"tokens_per_s_per_device,omitempty"`
}

// setRates sets what follows from the step time, for so many samples and tokens in
// a step.
func (r *Result) setRates(samples, tokens int64) {
	perSecond := func(n float64) float64 {
		if r.StepTime <= 0 {
			return 0
		}
		return n / r.StepTime
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
