package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// utilization tells how much of the devices' peak is used; nothing where there is no
// model.
func utilization(r results.Result) string {
	if r.MFU == 0 {
		return ""
	}
	text := units.FormatPercent(r.MFU)
	if hfu := units.FormatPercent(r.HFU); hfu != text {
		text += fmt.Sprintf(" (HFU %s)", hfu)
	}
	return fmt.Sprintf("%s, %s per device of %s in %s", text, units.FormatFLOPS(r.MFU*r.PeakFLOPs), units.FormatFLOPS(r.PeakFLOPs), r.Precision)
}

// memoryParts tells what the highest peak holds, the largest part first; nothing
// where one part is all.
func memoryParts(r results.Result) string {
	m := highestRank(r).Memory
	if m == nil {
		return ""
	}
	parts := memoryPartsOf(*m)
	if len(parts) < 2 {
		return ""
	}
	return strings.Join(parts, ", ")
}

// parts lists what there is of a memory, the most first.
func memoryPartsOf(m results.MemoryBytes) []string {
	type part struct {
		name  string
		bytes int64
	}
	parts := slices.DeleteFunc([]part{
		{"parameters", m.Parameters}, {"gradients", m.Gradients}, {"optimizer", m.Optimizer},
		{"activations", m.Activations}, {"buffers", m.Buffers}, {"context", m.Context},
	}, func(p part) bool { return p.bytes == 0 })
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.bytes, a.bytes) })
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.name+" "+units.FormatBytes(p.bytes))
	}
	return texts
}

// highestRank returns the first rank with the highest peak.
func highestRank(r results.Result) (highest results.RankResult) {
	for _, rank := range r.Ranks {
		if rank.PeakMemory > highest.PeakMemory {
			highest = rank
		}
	}
	return highest
}

// distinct returns the ranks to be shown: of replicas that are all alike those of one,
// with the number of replicas, and else all.
func distinct(r results.Result) (ranks []results.RankResult, replicas int) {
	replicas = r.DataParallel
	if replicas < 2 || len(r.Ranks)%replicas != 0 {
		return r.Ranks, 1
	}
	n := len(r.Ranks) / replicas
	for i := n; i < len(r.Ranks); i++ {
		if rankValuesOf(r.Ranks[i]) != rankValuesOf(r.Ranks[i%n]) {
			return r.Ranks, 1
		}
	}
	return r.Ranks[:n], replicas
}

// A rankValues holds those of a rank that can be compared.
type rankValues struct {
	results.RankResult
	memory            results.MemoryBytes
	dispatch, waiting float64
}

func rankValuesOf(r results.RankResult) rankValues {
	v := rankValues{r, results.MemoryBytes{}, results.OrZero(r.Dispatch), results.OrZero(r.Waiting)}
	if r.Memory != nil {
		v.memory = *r.Memory
	}
	v.Rank, v.Memory, v.Dispatch, v.Waiting = 0, nil, nil, nil
	return v
}

// rankText names the first n ranks.
func rankText(n int) string {
	if n == 1 {
		return "rank 0"
	}
	return fmt.Sprintf("ranks 0–%d", n-1)
}

// parameters prints those of a mixture of experts, and of a network that a file describes,
// which its published number can be held to.
func parameters(r results.Result) string {
	text := units.FormatCount(r.Parameters)
	switch {
	case r.ActiveParameters < r.Parameters:
		return fmt.Sprintf("%s, %s of them for a token", text, units.FormatCount(r.ActiveParameters))
	case r.Read:
		return text
	}
	return ""
}
