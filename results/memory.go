package results

import (
	"cmp"
	"fmt"
	"slices"

	"psim/internal/units"
)

// The verdicts on whether memory suffices.
const (
	Fits       = "fits"         // within the memory less the margin
	Close      = "close"        // above that, and within the memory
	DoesNotFit = "does not fit" // above the memory
)

// MemoryBytes splits the peak memory of a rank into its parts.
type MemoryBytes struct {
	// Weights in the precision of training: the rank's own, weights that ZeRO 3 has gathered,
	// and stashed versions.
	Parameters int64 `json:"parameters" unit:"bytes"`
	// Sums over microbatches and, under ZeRO 2 and 3, whole gradients that are not scattered
	// yet.
	Gradients int64 `json:"gradients" unit:"bytes"`
	Optimizer int64 `json:"optimizer" unit:"bytes"` // moments, and the fp32 weights of mixed precision
	// Tensors that passes compute and keep, their gradients, and messages between stages.
	Activations int64 `json:"activations" unit:"bytes"`
	Buffers     int64 `json:"buffers" unit:"bytes"` // buffers of collectives, and memory.buffers
	Context     int64 `json:"context" unit:"bytes"` // memory.context, and what memory.allocator adds
}

// A NodeResult is the memory of a node, which its devices share.
type NodeResult struct {
	Node    int `json:"node"`    // number of the node, from 0
	Devices int `json:"devices"` // devices of the node that the step uses
	// Sum of the peaks of the devices, even if they occur at different times, because a worker
	// returns little memory to the system.
	PeakMemory     int64 `json:"peak_memory_bytes"`
	MemoryCapacity int64 `json:"memory_capacity_bytes"` // machine.memory_per_node less the margin
}

// Limits are the memory of the ranks and of the nodes, in bytes.
type Limits struct {
	// Capacity is the memory that each rank may use, without the margin; nil is unlimited.
	// A peak equal to it fits.
	Capacity []int64
	// Margin is the share of the memory that should stay free. Memory is the memory of a rank
	// including the margin.
	Margin float64
	Memory int64
	// Close is the share of the memory that a peak must leave free in order not to be close.
	// It exceeds Margin only if the margin is 0; then a close peak still fits.
	Close float64
	// Node is the memory that the devices of a node share, including the margin; 0 is
	// unlimited. DevicesPerNode is 0 if all devices are in one node.
	Node           int64
	DevicesPerNode int
	On             func(rank int32) int32 // the node of a rank's first device
}

// Fits reports whether the memory of every rank and node suffices and leaves the margin free.
// With a margin of 0 a close peak fits, too.
func (r Result) Fits() bool {
	return r.FitsMemory && (r.MemoryVerdict != Close || r.MemoryMargin == 0)
}

// checkMemory sets the verdict and the capacities. It warns about the rank and the node that
// lack the most memory.
func (r *Result) checkMemory(l Limits) {
	r.FitsMemory = true
	var ranks, nodes []need
	for i := range min(len(r.Ranks), len(l.Capacity)) {
		r.Ranks[i].MemoryCapacity = l.Capacity[i]
		form := fmt.Sprintf("rank %d needs %%s of memory and has %%s", i)
		ranks = append(ranks, need{form, r.Ranks[i].PeakMemory, l.within(l.Capacity[i]), max(l.Memory, l.Capacity[i])})
	}
	r.Nodes = r.nodes(l)
	for _, n := range r.Nodes {
		form := fmt.Sprintf("node %d needs %%s of memory for its %s and has %%s",
			n.Node, units.Plural(n.Devices, "device"))
		nodes = append(nodes, need{form, n.PeakMemory, n.MemoryCapacity, l.Node})
	}
	r.judge(ranks, "rank", max(l.Margin, l.Close))
	r.judge(nodes, "node", l.Margin)
}

// within returns the highest peak of a rank that is not close.
func (l Limits) within(capacity int64) int64 {
	if l.Close <= l.Margin {
		return capacity
	}
	return int64(float64(capacity) * (1 - l.Close) / (1 - l.Margin))
}

// nodes adds up the memory of the devices of every node.
func (r *Result) nodes(l Limits) (list []NodeResult) {
	if l.Node == 0 {
		return nil
	}
	for i, rank := range r.Ranks {
		for d := range r.DevicesPerRank() {
			node := 0
			if l.DevicesPerNode > 0 {
				node = int(l.On(int32(i))) + d/l.DevicesPerNode
			}
			for len(list) <= node {
				capacity := int64(float64(l.Node) * (1 - l.Margin))
				list = append(list, NodeResult{Node: len(list), MemoryCapacity: capacity})
			}
			list[node].Devices++
			list[node].PeakMemory += rank.PeakMemory
		}
	}
	return list
}

// A need compares the peak of a rank or node with its memory.
type need struct {
	form   string // a format of a sentence with the peak and the whole memory
	peak   int64
	within int64 // the highest peak that is not close
	whole  int64 // the whole memory
}

func (n need) lack() int64 { return n.peak - n.within }

// judge sets the verdict on some ranks or nodes, unless it is worse already. It warns about
// the one that lacks the most.
func (r *Result) judge(needs []need, what string, margin float64) {
	if len(needs) == 0 {
		return
	}
	if r.MemoryVerdict == "" {
		r.MemoryVerdict = Fits
	}
	short, beyond := 0, 0
	for _, n := range needs {
		if n.lack() > 0 {
			short++
		}
		if n.peak > n.whole {
			beyond++
		}
	}
	if short == 0 {
		return
	}
	worst := slices.MaxFunc(needs, func(a, b need) int { return cmp.Compare(a.lack(), b.lack()) })
	text := fmt.Sprintf(worst.form, units.FormatBytes(worst.peak), units.FormatBytes(worst.whole))
	than := "than they have"
	if worst.peak <= worst.whole {
		if r.FitsMemory {
			r.MemoryVerdict = Close
		}
		text, than = text+", of which "+r.leaves(margin), "than the margin allows"
	} else {
		r.MemoryVerdict, r.FitsMemory, short = DoesNotFit, false, beyond
		text += fmt.Sprintf(", %s too little", units.FormatBytes(worst.peak-worst.whole))
	}
	if short > 1 {
		text += fmt.Sprintf("; %d %ss need more %s", short, what, than)
	}
	r.Warnings = append(r.Warnings, text)
}

// leaves says how much of the memory should stay free, and why.
func (r *Result) leaves(margin float64) string {
	if r.MemoryMargin == 0 {
		return fmt.Sprintf("less than %s is left for what is not counted, such as fragmentation "+
			"(--set machine.memory_margin=%v finds changes that leave it free)", units.FormatPercent(margin), margin)
	}
	return fmt.Sprintf("machine.memory_margin is to leave %s free", units.FormatPercent(margin))
}

// UsesMemory reports whether any memory was modelled.
func (r Result) UsesMemory() bool {
	return slices.ContainsFunc(r.Ranks, func(rank RankResult) bool { return rank.PeakMemory > 0 })
}

// MemoryCapacities returns the memory of every rank, or nil if one is unknown.
func (r Result) MemoryCapacities() []int64 {
	var list []int64
	for _, rank := range r.Ranks {
		if rank.MemoryCapacity == 0 {
			return nil
		}
		list = append(list, rank.MemoryCapacity)
	}
	return list
}
