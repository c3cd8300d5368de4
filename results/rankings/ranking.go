package rankings

import (
	"cmp"
	"io"
	"slices"

	"psim/internal/files"
	"psim/results"
)

// A Candidate is one way to run an experiment: its settings and its prediction.
type Candidate struct {
	results.Result
	Settings []string `json:"settings"` // KEY=VALUE, as --set takes them
}

// A Ranking is the outcome of psim search, best first: the plans that fit in memory by step
// time, then the others by the memory that they need.
type Ranking struct {
	Plans     []Candidate `json:"plans"`     // results with their settings, best first
	Evaluated int         `json:"evaluated"` // plans that were simulated
	// Plans that were not simulated, because their parameters alone do not fit.
	Pruned  int       `json:"pruned"`
	LeftOut []LeftOut `json:"left_out,omitempty"` // schedules without a plan
	Partial bool      `json:"partial,omitempty"`  // the search was interrupted
	// Time that the search took. It is only on stdout, not in files.
	Seconds *float64 `json:"seconds,omitempty" unit:"s"`
}

// LeftOut says why a schedule has no plan.
type LeftOut struct {
	Schedule string `json:"schedule"` // its name
	Reason   string `json:"reason"`   // why it has no plan
}

// Sort puts the best plan first. Of plans with equal times, the one that needs less memory
// comes first.
func (p Ranking) Sort() {
	slices.SortStableFunc(p.Plans, func(a, b Candidate) int {
		switch {
		case a.Fits() != b.Fits():
			return map[bool]int{true: -1, false: 1}[a.Fits()]
		case a.Fits():
			return cmp.Or(cmp.Compare(a.StepTime, b.StepTime), cmp.Compare(a.PeakMemory(), b.PeakMemory()))
		}
		return cmp.Or(cmp.Compare(a.PeakMemory(), b.PeakMemory()), cmp.Compare(a.StepTime, b.StepTime))
	})
}

// WriteJSON writes the plans as an indented JSON object.
func (p Ranking) WriteJSON(w io.Writer) error {
	list := make([]Candidate, len(p.Plans))
	for i, plan := range p.Plans {
		list[i] = Candidate{plan.Result.Writable(), plan.Settings}
	}
	p.Plans = list
	return files.WriteJSON(w, p)
}
