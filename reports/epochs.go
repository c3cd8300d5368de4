package reports

import (
	"fmt"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// epochLines lists the numbers of the epochs with their names: their time, and of measured
// epochs the time of every rank and the rate.
func epochLines(e *results.Epochs) (lines [][2]string) {
	if e == nil {
		return nil
	}
	text := units.FormatSeconds(e.Time)
	if e.Each != nil {
		text += " ± " + units.FormatSeconds(e.TimeStd) + ", mean of " + units.Plural(e.Number, "epoch")
		if e.Dropped > 0 {
			text += fmt.Sprintf(" after %d to warm up", e.Dropped)
		}
	}
	steps := units.Plural(int(e.Steps), "step")
	samples := units.FormatCount(e.Samples) + " samples"
	if e.Samples == 1 {
		samples = "1 sample"
	}
	text += fmt.Sprintf("; %s in %s of %d", samples, steps, e.Batch)
	if e.LastBatch != e.Batch {
		text += fmt.Sprintf("; the last has %d left and ", e.LastBatch)
		if e.LastTime > 0 {
			text += "takes " + units.FormatSeconds(e.LastTime)
		} else {
			text += "is filled up"
		}
	}
	lines = append(lines, [2]string{"epoch", text})
	if e.Each == nil {
		if e.Number > 1 {
			lines = append(lines, [2]string{units.Plural(e.Number, "epoch"), units.FormatSeconds(e.Total)})
		}
		return lines
	}
	var ranks []string
	for _, r := range e.Ranks {
		text := fmt.Sprintf("rank %d %s ± %s", r.Rank, units.FormatSeconds(r.Time), units.FormatSeconds(r.TimeStd))
		ranks = append(ranks, text)
	}
	const most = 8
	if len(ranks) > most {
		ranks = append(ranks[:most], "…")
	}
	byRank := [2]string{"epoch by rank", strings.Join(ranks, ", ")}
	rate := deviatingRate(e.Throughput, *e.ThroughputStd) +
		", summed over the replicas; ± is the deviation over the epochs, with n"
	return append(lines, byRank, [2]string{"epoch's rate", rate})
}

// deviatingRate prints the throughput of measured epochs with its deviation.
func deviatingRate(rate, deviation results.Throughput) string {
	var parts []string
	add := func(mean, deviation float64, what string) {
		if mean > 0 {
			text := units.FormatPerSecond(mean) + " ± " + units.FormatPerSecond(deviation) + " " + what
			parts = append(parts, text)
		}
	}
	add(rate.Samples, deviation.Samples, "samples/s")
	add(rate.Tokens, deviation.Tokens, "tokens/s")
	return strings.Join(parts, ", ")
}
