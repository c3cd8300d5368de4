package published

import (
	_ "embed"
	"fmt"
	"strings"
)

// korthikantiMachine is the [machine] that was fitted to the rows with full
// recomputation; see TestFitKorthikanti.
//
//go:embed testdata/korthikanti_machine.toml
var korthikantiMachine string

const korthikantiPaper = "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models, arXiv 2205.05198"

// korthikantiTable5 returns iteration times of Megatron-LM from 22B to 1T parameters.
func korthikantiTable5() Table {
	return Table{
		Name: "korthikanti-2022-table-5", Title: "iteration times of 22B to 1T parameters on 8 to 512 A100", Figure: "korthikanti-times",
		Paper: korthikantiPaper, Place: "table 5; shapes from table 3",
		Fitted: "the device's rate and launch, from the four rows with full recomputation; error on the four with selective recomputation and sequence parallelism",
		Claim:  "Calculon (Isaev et al. 2023): 3.65 % mean and 8.87 % worst over all eight rows",
		Note: "Exchanges of tensor parallelism are not overlapped with products (tensor_overlap = false), because products slow down beside them. " +
			"The errors of 22B are split by what the paper's table 4 has of its layers; the rest of that step is the embedding, the head, the loss, clipping and the optimizer.",
		Rows: func() ([]Row, error) {
			return rowsPer("korthikanti.csv", func(r record) (rows []Row, err error) {
				for _, selective := range []bool{false, true} {
					row, err := r.megatron(korthikantiMachine, selective)
					if err != nil {
						return nil, err
					}
					row.Used = !selective
					if r.text("model") == "22b" {
						if row.Parts, err = r.layerParts(row, korthikantiMachine, selective); err != nil {
							return nil, err
						}
					}
					rows = append(rows, row)
				}
				return rows, nil
			})
		},
	}
}

// megatron simulates a row's iteration on a machine.
func (r record) megatron(machine string, selective bool) (Row, error) {
	recompute, column := "full", "full_s"
	if selective {
		recompute, column = "selective", "selective_s"
	}
	s, err := simulate(r.megatronConfig(recompute, selective, 1) + machine)
	return Row{
		Label: fmt.Sprintf("%s, %s recomputation", strings.ToUpper(r.text("model")), recompute), Unit: "s",
		Published: r.number(column), Predicted: s.Summary.StepTime.Seconds(),
	}, err
}

// megatronConfig returns a row without its machine, on so many replicas. Gradients are
// summed at the end, all at once.
func (r record) megatronConfig(recompute string, sequence bool, data int) string {
	p, v := r.count("pp"), r.count("virtual_stages")
	group := ""
	schedule := "1f1b"
	if v > 1 {
		schedule, group = "interleaved-1f1b", fmt.Sprintf("virtual_stages = %d\ngroup = %d\n", v, p)
	}
	return fmt.Sprintf(`
[schedule]
name = %q
stages = %d
partition = %s
%s[model]
preset = "megatron-%s"
[batch]
global = %d
micro = %d
[parallel]
tensor = %d
sequence = %t
tensor_overlap = false
data = %d
overlap = false
bucket = "1TB"
[train]
precision = "fp16"
gradients = "fp32"
optimizer = "adam"
clip = true
recompute = %q
`, schedule, p, equalBlocks(r.count("layers"), p*v), group, r.text("model"), r.count("global_batch"), r.count("micro_batch"),
		r.count("tp"), sequence, data, recompute)
}
