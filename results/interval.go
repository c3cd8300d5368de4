package results

// An interval says where a measured step time may lie, from how far off predictions of published runs were
// that psim's constants have not seen.
type interval struct {
	Low      float64 `json:"low_s"`                    // its lower end
	High     float64 `json:"high_s"`                   // its upper end
	Coverage float64 `json:"coverage" unit:"fraction"` // share of measured steps that should lie inside
	From     string  `json:"from"`                     // the runs that it was taken from, in words
	Runs     int     `json:"runs"`                     // number of these runs
	Sources  int     `json:"sources"`                  // number of those who published them
	// Settings that are not said and would change the step, the one that changes it most first.
	Unsaid []WhatIf `json:"unsaid,omitempty"`
}

// AddInterval gives the result an interval, to be filled in.
func (r *Result) AddInterval() *interval {
	r.Interval = &interval{}
	return r.Interval
}
