package results

// A WhatIf is a change of the configuration and the prediction with it.
type WhatIf struct {
	Set        []string `json:"set"`               // KEY=VALUE, as --set takes them
	StepTime   float64  `json:"step_time_s"`       // time of a step with the optimizer
	PeakMemory int64    `json:"peak_memory_bytes"` // highest peak of any rank
	// Whether the peak is within the memory, as in memory_verdict of the result.
	MemoryVerdict string `json:"memory_verdict,omitempty" oneof:"fits,close,does not fit"`
}
