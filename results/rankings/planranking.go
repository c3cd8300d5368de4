// Package rankings is the saved form of many predictions: the plans of a search, and the
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
	Micro         int64  `json:"micro"`          // samples in a microbatch
	Microbatches  int    `json:"microbatches"`   // of a replica and step
	Schedule      string `json:"schedule"`       // its name
	Recompute     string `json:"recompute"`      // as train.recompute
	Zero          int    `json:"zero"`           // as parallel.zero
	Sequence      bool   `json:"sequence"`       // as parallel.sequence
	Context       int    `json:"context"`        // devices that share a sequence
	Expert        int    `json:"expert"`         // devices that share experts
	// ExpertTensor is the number of devices that divide every expert. 0 stands for the number
	// that divides the rest of its layer if Expert is 1, and otherwise for 1.
	ExpertTensor int `json:"expert_tensor,omitempty"`
}

// Layout returns how a plan divides the network over the devices. Plans of one layout differ in their
// schedules and microbatches, in what they compute again and in what they shard.
func (p PlanShape) Layout() PlanShape {
	return PlanShape{
		Data: p.Data, Tensor: p.Tensor, Stages: p.Stages, VirtualStages: p.VirtualStages,
		Context: p.Context, Expert: p.Expert, ExpertTensor: p.ExpertTensor,
	}
}

// A RankedPlan is a plan that was simulated.
type RankedPlan struct {
	results.Result
	Plan PlanShape `json:"plan"` // how it divides the work
	Set  []string  `json:"set"`  // KEY=VALUE, as --set takes them
	// Probability that its measured step is the shortest of the first ten plans, with a stack.
	ProbabilityBest *float64 `json:"probability_best,omitempty" unit:"fraction"`
}

// writable returns the plan with its result as it is written.
func (p RankedPlan) writable() RankedPlan {
	p.Result = p.Result.Writable()
	return p
}

// Rivals is the number of plans that may be the best when measured.
const Rivals = 10

// A PlanRanking is the outcome of a search over the plans for a number of devices, best
// first: those that fit in memory, by step time, and by their settings where that is equal.
type PlanRanking struct {
	Devices   int            `json:"devices"`   // number of devices
	Plans     []RankedPlan   `json:"plans"`     // the best, best first
	Space     int            `json:"space"`     // number of all plans
	Evaluated int            `json:"evaluated"` // plans that were simulated
	Bounded   int            `json:"bounded"`   // plans that were discarded because a bound says that they are slower
	Pruned    int            `json:"pruned"`    // all plans that were discarded without a simulation
	PrunedBy  map[string]int `json:"pruned_by"` // the same, by reason
	// How much shorter the step of a better plan may be, as a fraction: 0 if the best plan is
	// proved to be the best, 1 if no plan was found yet.
	Gap     float64 `json:"gap"`
	Partial bool    `json:"partial,omitempty"` // the search was interrupted
	// The best plan compared with the second, and with the configuration's own if that fits.
	Why      []PlanWhy        `json:"why,omitempty"`
	WouldFit []results.Remedy `json:"would_fit,omitempty"` // changes with which a plan would fit, if none does
	Nothing  string           `json:"nothing,omitempty"`   // why there are no plans: which numbers do not divide
	// WithinNode is the number of devices in a node if no network connects nodes, so that no
	// plan can have more devices, and otherwise 0.
	WithinNode int `json:"-"`
	// Varied are the keys with several values that are not dimensions. The table has a column
	// for each.
	Varied []string `json:"-"`
	// Time that the search took. It is only on stdout, not in files.
	Seconds *float64 `json:"seconds,omitempty" unit:"s"`
}

// WriteJSON writes the plans as an indented JSON object.
func (p PlanRanking) WriteJSON(w io.Writer) error { return files.WriteJSON(w, p.writable()) }

// writable returns the ranking with results as they are written.
func (p PlanRanking) writable() PlanRanking {
	list := make([]RankedPlan, len(p.Plans))
	for i, plan := range p.Plans {
		list[i] = plan.writable()
	}
	p.Plans = list
	return p
}

// PlanSearches are searches for several numbers of devices.
type PlanSearches struct {
	Searches []PlanRanking `json:"searches"` // in the order in which the numbers were given
}

// WriteJSON writes the searches as an indented JSON object.
func (s PlanSearches) WriteJSON(w io.Writer) error {
	list := []PlanRanking{}
	for _, one := range s.Searches {
		list = append(list, one.writable())
	}
	return files.WriteJSON(w, PlanSearches{list})
}

// Decided counts the plans that are known to be, or not to be, among the best.
func (p PlanRanking) Decided() int { return p.Evaluated + p.Pruned }
