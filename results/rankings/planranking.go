// Package rankings is the saved form of many predictions: the plans of a search and the
// points of a sweep.
package rankings

import (
	"io"

	"psim/internal/files"
	"psim/results"
)

// A PlanShape is how a plan divides a network and its batch over devices.
type PlanShape struct {
	Data          int    `json:"data"`           // replicas
	Tensor        int    `json:"tensor"`         // devices of a tensor-parallel group
	Stages        int    `json:"stages"`         // pipeline ranks
	VirtualStages int    `json:"virtual_stages"` // stages of a rank
	Micro         int64  `json:"micro"`          // samples of a microbatch
	Microbatches  int    `json:"microbatches"`   // of a replica and step
	Schedule      string `json:"schedule"`       // its name
	Recompute     string `json:"recompute"`      // as train.recompute
	Zero          int    `json:"zero"`           // as parallel.zero
	Sequence      bool   `json:"sequence"`       // as parallel.sequence
	Context       int    `json:"context"`        // devices that share a sequence
	Expert        int    `json:"expert"`         // devices that share experts
	// ExpertTensor is the devices that divide every expert; 0: as the rest of its layer with
	// Expert = 1, else 1.
	ExpertTensor int `json:"expert_tensor,omitempty"`
}

// A RankedPlan is a plan that was simulated.
type RankedPlan struct {
	results.Result
	Plan PlanShape `json:"plan"` // how it divides the work
	Set  []string  `json:"set"`  // KEY=VALUE, as --set takes them
}

// A PlanRanking is the outcome of a search over the plans for a number of devices, best
// first: those that fit in memory, by step time, and by their settings where that is equal.
type PlanRanking struct {
	Plans     []RankedPlan   `json:"plans"`     // the best, best first
	Space     int            `json:"space"`     // plans that there are
	Evaluated int            `json:"evaluated"` // plans that were simulated
	Bounded   int            `json:"bounded"`   // plans that are not, because a bound says that they are slower
	Pruned    int            `json:"pruned"`    // plans that were discarded without a simulation, in all
	PrunedBy  map[string]int `json:"pruned_by"` // the same, by reason
	// How much shorter the step of a better plan may be, as a fraction: 0 where the best
	// is proved, 1 where nothing was found yet.
	Gap     float64   `json:"gap"`
	Partial bool      `json:"partial,omitempty"` // the search was interrupted
	Why     []PlanWhy `json:"why,omitempty"`     // the best plan beside the second, and beside the configuration's own if that fits
	// How far off predictions of the configuration's stack on its device were.
	Accuracy *StackAccuracy   `json:"accuracy,omitempty"`
	WouldFit []results.Remedy `json:"would_fit,omitempty"` // where nothing fits: what would
	Nothing  string           `json:"nothing,omitempty"`   // where there is no plan: which numbers do not divide
	// WithinNode counts the devices of a node where no network joins nodes, so that no plan
	// can have more; else 0.
	WithinNode int `json:"-"`
	// Varied are keys of several values that are no dimension: the table has columns of them.
	Varied []string `json:"-"`
	// Time that the search took: on stdout alone, in no file.
	Seconds *float64 `json:"seconds,omitempty" unit:"s"`
}

// WriteJSON writes the plans as an indented JSON object.
func (p PlanRanking) WriteJSON(w io.Writer) error {
	list := make([]RankedPlan, len(p.Plans))
	for i, plan := range p.Plans {
		list[i] = RankedPlan{plan.Result.Writable(), plan.Plan, plan.Set}
	}
	p.Plans = list
	return files.WriteJSON(w, p)
}

// Decided counts the plans of which it is known whether they are among the best.
func (p PlanRanking) Decided() int { return p.Evaluated + p.Pruned }
