package published

import (
	"context"
	"fmt"
	"strings"

	"psim"
	"psim/configs"
	"psim/costmodel/arch"
	"psim/reports"
)

// estimate predicts a published plan of configs/plans.
func estimate(name string, sets ...string) (reports.Result, error) {
	c, err := configs.Load("plans/"+name, sets...)
	if err != nil {
		return reports.Result{}, err
	}
	p, err := psim.Estimate(context.Background(), c)
	if err != nil {
		return reports.Result{}, err
	}
	return p.Result, nil
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

func llama3Table4() Table {
	return Table{
		Name: "llama3-2024-table-4", Title: "TFLOP/s of an H100 that trains Llama 3 405B", Figure: "llama3-2024-table-4",
		Paper: "Grattafiori et al. 2024, The Llama 3 Herd of Models, arXiv 2407.21783", Place: "table 4",
		Note: "Nothing is fitted. The plan is configs/plans/llama3-405b.toml. How many chunks a rank has is not published: with 8, the most, predictions are the best case, and those with 1 and 2 bracket the first row. " +
			"FLOPs are counted with the half of the square that the causal mask leaves, which the paper does not say; with 131,072 tokens the whole square is 1.4 times as much. Networks between nodes are RoCE with 7 times less bandwidth between pods, which is not modelled.",
		Rows: llama3Rows,
	}
}

// llama3Rows predicts what is published of three stages of the training.
func llama3Rows() ([]Row, error) {
	chunks := func(v int) []string {
		each := bridgeModel{blocks: 126}.partition(16*v, 0)
		return []string{fmt.Sprintf("schedule.virtual_stages=%d", v), "schedule.partition=[" + strings.Join(each, ",") + "]"}
	}
	long := []string{"parallel.data=8", "parallel.context=16", "parallel.context_method=all-gather", "model.sequence_length=131072", "batch.global=128"}
	type stage struct {
		label     string
		published float64
		sets      []string
	}
	return rowPer([]stage{
		{"8,192 GPUs, 8,192 tokens", 430, nil},
		{"16,384 GPUs, 8,192 tokens", 400, []string{"parallel.data=128"}},
		{"16,384 GPUs, 131,072 tokens, context 16", 380, long},
	}, func(of stage) (Row, error) {
		rate := func(v int) (float64, error) {
			p, err := estimate("llama3-405b", append(chunks(v), of.sets...)...)
			if err != nil {
				return 0, err
			}
			return causalFLOPs(int(p.SequenceLength)) * p.Throughput.Tokens / float64(p.Devices) / 1e12, nil
		}
		row := Row{Label: of.label, Unit: "TFLOP/s", Published: of.published}
		for _, v := range []int{8, 4, 2, 1} {
			r, err := rate(v)
			if err != nil {
				return row, err
			}
			row.Alternatives = append(row.Alternatives, Alternative{fmt.Sprintf("chunks %d", v), r})
		}
		row.Predicted, row.Alternatives = row.Alternatives[0].Predicted, row.Alternatives[1:]
		return row, nil
	})
}

// causalFLOPs counts those of a token of Llama 3 405B: six for every parameter of a product,
// and the half of attention's square.
func causalFLOPs(tokens int) float64 {
	m := arch.Model{Preset: "llama3-405b"}
	const layers, hidden, vocab = 126, 16384, 128256
	n, _ := m.Network() // a preset
	return 6*float64(n.Parameters()-vocab*hidden) + 6*layers*hidden*float64(tokens)
}
