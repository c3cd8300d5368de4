package published

import (
	"slices"
	"strconv"
	"strings"
)

// A runs is a file of training runs that somebody has published: a column for every key
// of a configuration, and one for the seconds of a step.
type runs struct {
	file  string // of testdata, without runs_ and .csv
	title string
	place string
	note  string
}

// trainingRuns returns a table for every source of training runs.
func trainingRuns() []Table {
	var tables []Table
	for _, r := range []runs{
		{"mpt", "GPTs of 125M to 70B on 8 to 512 A100 and H100, PyTorch FSDP", "mosaicml/llm-foundry, scripts/train/benchmarking/README.md", ""},
		{"bloom", "GPTs of 100B to 200B on 8 to 384 A100, Megatron-DeepSpeed", "bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles-prequel.md", ""},
		{"nanotron", "Llamas of 1B to 80B on 8 to 32 H100, nanotron", "huggingface/nanotron, docs/benchmark_summary.svg", ""},
		{"dgxc", "GPTs and Llamas of 8B to 340B on 8 to 2,048 H100, NeMo and MaxText", "NVIDIA/dgxc-benchmarking", ""},
		{"torchtitan", "Llama 3 on 64 A100, torchtitan", "pytorch/torchtitan, docs/performance.md", ""},
		{"fms", "Llama 2 on 128 A100, compiled PyTorch FSDP", "foundation-model-stack/fms-fsdp, README", ""},
	} {
		tables = append(tables, Table{
			Name: "runs-" + r.file, Title: r.title, Figure: "runs", Paper: "training runs that their authors timed", Place: r.place, Note: r.note,
			Rows: func() ([]Row, error) { return rowPer(records("runs_"+r.file+".csv"), record.run) },
		})
	}
	return tables
}

// run predicts a step.
func (r record) run() (Row, error) {
	s, err := simulate(r.configuration())
	return Row{Label: r.text("row"), Unit: "s", Published: r.number("seconds"), Predicted: s.Summary.StepTime.Seconds()}, err
}

// configuration returns the keys of a configuration that a row has: its columns with a dot.
func (r record) configuration() string {
	var lines []string
	for key, value := range r.cells {
		if strings.Contains(key, ".") && value != "" {
			lines = append(lines, key+" = "+tomlValue(value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// tomlValue writes a cell as TOML has it: a list, a number or a text.
func tomlValue(cell string) string {
	if strings.HasPrefix(cell, "[") {
		return strings.ReplaceAll(cell, " ", ", ")
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil || cell == "true" || cell == "false" {
		return cell
	}
	return strconv.Quote(cell)
}
