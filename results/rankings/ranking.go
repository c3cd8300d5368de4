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
	Set      []string `json:"set"`      // KEY=VALUE, as --set takes them
	Settings []string `json:"settings"` // the same, as files had it before set
	// By how much set divides [times] and activations, so that another number of stages does the
	// same work; absent if it does not. Below 1 it multiplies them.
	TimesDividedBy float64 `json:"times_divided_by,omitempty"`
}

// NewCandidate makes a candidate of settings and the prediction with them.
func NewCandidate(r results.Result, set []string, timesDividedBy float64) Candidate {
	return Candidate{Result: r, Set: set, Settings: set, TimesDividedBy: timesDividedBy}
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
		plan.Result = plan.Result.Writable()
		list[i] = plan
	}
	p.Plans = list
	return files.WriteJSON(w, p)
}
