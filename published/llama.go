package published

import (
	_ "embed" // the plan
	"fmt"
	"maps"
	"slices"
	"strings"

	"psim/configs"
	"psim/results"
)

//go:embed testdata/llama3_405b.toml
var llama3405BPlan []byte // the last row's, which the others differ from by their columns

// llama3405B replays the rates at which Llama 3 405B was trained.
func llama3405B() Table {
	return Table{
		Name: "llama3-405b-table-4", Title: "rate of a device, Llama 3 405B on 8,192 and 16,384 H100", Figure: "llama3-405b",
		Paper: "Llama Team 2024, The Llama 3 Herd of Models, arXiv 2407.21783", Place: "table 4; section 3.3.2",
		Note: `Nothing is fitted: rates are the catalog's, the stack is torchtitan, of the same house; Meta's own program is not published. How many chunks a rank has is not said: rows have 8, of a layer each, which follows from what the first and the last hold, and those with 1, 2 and 4 are beside them, as is the stack megatron-te. Nor is it said how FLOPs of attention are counted, which is half of the work at 131,072 tokens: rows count the whole square, as torchtitan does, and "by the mask" half of it; the published rate lies between. ` +
			`Devices are predicted to need 110 to 120 GB, and 96 to 103 with megatron-te, whose kernel for function and gate keeps three tensors of the MLP in place of four; the paper says that 80 GB sufficed without recomputation. 13 GB of it are whole gradients, which FSDP may shard.`,
		Rows: func() ([]Row, error) { return rowPer(records("llama3_405b.csv"), record.llama3405B) },
	}
}

// llama3405B predicts a row, and what else it may be.
func (r record) llama3405B() (Row, error) {
	row := Row{Label: r.text("row"), Unit: "TFLOP/s", Published: r.number("tflops")}
	p, err := r.chunked(8, "torchtitan")
	if err != nil {
		return row, err
	}
	// Scores and their product with values, of 126 layers of 16,384 features, three times.
	length := r.number("model.sequence_length")
	square := 3 * 4 * 126 * 16384 * length * length * r.number("batch.global")
	row.Predicted = rate(p, p.ModelFLOPs)
	row.Alternatives = []Alternative{{"attention by the mask", rate(p, p.ModelFLOPs-square/2)}}
	for _, chunks := range []int{4, 2, 1} {
		other, err := r.chunked(chunks, "torchtitan")
		if err != nil {
			return row, err
		}
		row.Alternatives = append(row.Alternatives, Alternative{fmt.Sprintf("chunks of %d layers", 8/chunks), rate(other, other.ModelFLOPs)})
	}
	other, err := r.chunked(8, "megatron-te")
	row.Alternatives = append(row.Alternatives, Alternative{"stack megatron-te", rate(other, other.ModelFLOPs)})
	return row, err
}

// chunked predicts a row with so many chunks of a rank, and a stack.
func (r record) chunked(chunks int, stack string) (results.Result, error) {
	sets := []string{fmt.Sprintf("schedule.virtual_stages=%d", chunks), "train.stack=" + stack}
	for _, key := range slices.Sorted(maps.Keys(r.cells)) {
		if strings.Contains(key, ".") {
			sets = append(sets, key+"="+r.text(key))
		}
	}
	if chunks == 1 {
		sets = append(sets, "schedule.name=1f1b")
	}
	return estimated(configs.Parse("llama3_405b.toml", llama3405BPlan, sets...))
}

// rate divides FLOPs of a step among its time and devices, in TFLOP/s.
func rate(r results.Result, flops float64) float64 {
	return flops / r.StepTime / float64(r.Devices) / 1e12
}
