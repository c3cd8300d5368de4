package published

import (
	"psim/configs"
	"psim/results"
)

// estimate predicts a published plan of configs/plans.
func estimate(name string, sets ...string) (results.Result, error) {
	return estimated(configs.Load("plans/"+name, sets...))
}

// What was measured of DeepSeek-V3's pre-training, and of a step of it.
const (
	deepSeekTokens = 14.8e12
	deepSeekHours  = 2.664e6 // of H800, for all tokens
	deepSeekStep   = 19.926  // seconds, of which
	deepSeekWork   = 1.13 + 1.99 + 0.48 + 13.95
	deepSeekIdle   = 2.06
)

func deepSeekV3() Table {
	return Table{
		Name: "deepseek-v3", Title: "GPU hours of DeepSeek-V3's pre-training on 2,048 H800", Figure: "deepseek-v3",
		Paper: "DeepSeek-AI 2024, DeepSeek-V3 Technical Report, arXiv 2412.19437; Zhao et al. 2025, Insights into DeepSeek-V3, ISCA",
		Place: "table 1 of the report; a step by class: table 4 of the other",
		Note: "Nothing is fitted. The plan is configs/plans/deepseek-v3.toml. 20 of the 132 multiprocessors send and receive (section 3.2.2), which leaves products the rate of 112: with all of them work is the part that is too fast. " +
			"Parts are of a step of 19.9 s: work is forwards, backwards and what they wait for experts, idle the bubbles, update the optimizer, which takes longer than its memory traffic. " +
			"Batches that grow in the first 469 of 14,800 billion tokens, restarts and checkpoints are left out. Activations are predicted not to fit, though they did: not all that DeepSeek keeps in 8 bits, or frees, is modelled.",
		Rows: deepSeekRows,
	}
}

// deepSeekRows predicts the hours of all tokens, and what of them are work, idle and update.
func deepSeekRows() ([]Row, error) {
	p, err := estimate("deepseek-v3")
	if err != nil {
		return nil, err
	}
	all, err := estimate("deepseek-v3", "machine.compute.efficiency=0.646", "machine.compute.efficiency_fp8=0.57")
	if err != nil {
		return nil, err
	}
	steps := deepSeekTokens / (p.Throughput.Tokens * p.StepTime)
	hours := func(seconds float64) float64 { return steps * seconds * float64(p.Devices) / 3600 }
	var work, idle, update float64
	for _, r := range p.Ranks {
		n := float64(len(p.Ranks))
		work += (r.Compute + r.ExposedCommunication) / n
		idle += r.Idle / n
		update += r.Optimizer / n
	}
	update += p.StepTime - work - idle - update // a rank waits for the slowest update
	part := func(name string, predicted, measured float64) Part {
		return Part{name, hours(predicted)/deepSeekHours - measured/deepSeekStep}
	}
	return []Row{{
		Label: "14.8 T tokens", Unit: "h", Published: deepSeekHours, Predicted: hours(p.StepTime),
		Parts:        []Part{part("work", work, deepSeekWork), part("idle", idle, deepSeekIdle), part("update", update, deepSeekStep-deepSeekWork-deepSeekIdle)},
		Alternatives: []Alternative{{"products on all multiprocessors", hours(all.StepTime)}},
	}}, nil
}
