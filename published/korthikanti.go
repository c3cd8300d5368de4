package published

import (
	_ "embed"
	"fmt"
	"strings"

	"psim/costmodel/models"
)

// korthikantiMachine holds the [machine] that was fitted to the rows with full
// recomputation; see fits.
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
			"The catalog's A100 has the rate and the launch that are fitted here. " +
			"The errors of 22B are split by what the paper's table 4 has of its layers; the rest of that step is the embedding, the head, the loss, clipping and the optimizer.",
		Rows: func() ([]Row, error) {
			return rowsPer(records("korthikanti.csv"), func(r record) ([]Row, error) {
				return rowPer([]bool{false, true}, func(selective bool) (Row, error) {
					row, err := r.megatron(korthikantiMachine, selective)
					if row.Used = !selective; err == nil && r.text("model") == "22b" {
						row.Parts, err = r.layerParts(row, korthikantiMachine, selective)
					}
					return row, err
				})
			})
		},
	}
}

func (r record) megatron(machine string, selective bool) (Row, error) {
	recompute, column := "full", "full_s"
	if selective {
		recompute, column = "selective", "selective_s"
	}
	s, err := simulate(r.megatronConfig(models.CodePlain, recompute, selective, 1) + machine)
	return Row{
		Label: fmt.Sprintf("%s, %s recomputation", strings.ToUpper(r.text("model")), recompute), Unit: "s",
		Published: r.number(column), Predicted: s.Summary.StepTime.Seconds(),
	}, err
}

// megatronConfig returns a row without its machine, on so many replicas. Gradients are
// summed at the end, all at once.
func (r record) megatronConfig(code, recompute string, sequence bool, data int) string {
	p, v := r.count("pp"), r.count("virtual_stages")
	schedule, group := "1f1b", ""
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
code = %q
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
`, schedule, p, equalBlocks(r.count("layers"), p*v), group, r.text("model"), code, r.count("global_batch"), r.count("micro_batch"),
		r.count("tp"), sequence, data, recompute)
}

// narayananTable2 returns rates of Megatron-LM on up to 2,240 GPUs.
func narayananTable2() Table {
	return Table{
		Name: "narayanan-2021-table-2", Title: "rate of 175B and 530B parameters on 384 to 2,240 A100", Figure: "narayanan",
		Paper:  "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, arXiv 2104.04473",
		Place:  "table 2, PTD-P",
		Device: "korthikanti-2022-table-5",
		Note: "The machine is that of korthikanti-2022-table-5, measured a year later. No constant is fitted to this table, but which mechanisms are modelled was decided with it in view. " +
			"By the two papers' own numbers the layers of 175B ran 7 % faster there (162 TFLOP/s beside a bubble of 7/192, against 153 beside one of 11/384): " +
			"in 2021 gradients of weights were added up in kernels of their own, microbatch by microbatch, and norms went over their gradient twice (code = \"megatron-2021\"). " +
			"With four times as many replicas 175B loses 8 % by the paper and 10 % here, and 530B 7 and 9 %. " +
			"The schedule is not named; 1F1B with one stage per rank is taken.",
		Rows: func() ([]Row, error) {
			return rowPer(records("narayanan.csv"), func(r record) (Row, error) {
				gpus := r.count("gpus")
				s, err := simulate(r.megatronConfig(models.CodeMegatron2021, "full", false, gpus/r.count("tp")/r.count("pp")) + korthikantiMachine)
				return Row{
					Label: fmt.Sprintf("%s on %d GPUs", strings.ToUpper(r.text("model")), gpus), Unit: "TFLOP/s",
					Published: r.number("teraflops"),
					Predicted: r.iterationFLOPs() / s.Summary.StepTime.Seconds() / float64(gpus) / 1e12,
				}, err
			})
		},
	}
}

// iterationFLOPs returns what the paper divides by the time: equation 3, which counts the
// forward that recomputation repeats.
func (r record) iterationFLOPs() float64 {
	const s, v = 2048, 51200
	l, h, batch := r.number("layers"), r.number("hidden"), r.number("global_batch")
	return 96 * batch * s * l * h * h * (1 + s/(6*h) + v/(16*l*h))
}
