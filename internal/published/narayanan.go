package published

import (
	"fmt"
	"strings"
)

// narayananTable2 returns rates of Megatron-LM on up to 2,240 GPUs.
func narayananTable2() Table {
	return Table{
		Name: "narayanan-2021-table-2", Title: "rate of 175B and 530B parameters on 384 to 2,240 A100", Figure: "narayanan",
		Paper:  "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, arXiv 2104.04473",
		Place:  "table 2, PTD-P",
		Device: "korthikanti-2022-table-5",
		Note: "No constant is from this table: the machine is that of korthikanti-2022-table-5, measured a year later. " +
			"By the two papers' own numbers the layers of 175B ran 7 % faster there (162 TFLOP/s beside a bubble of 7/192, against 153 beside one of 11/384), which is about what the predictions are off. " +
			"With four times as many replicas 175B loses 8 % by the paper and 10 % here, and 530B 7 and 9 %. " +
			"The schedule is not named; 1F1B with one stage per rank is taken.",
		Rows: func() ([]Row, error) {
			return rowPer("narayanan.csv", func(_ int, r record) (Row, error) {
				gpus := r.count("gpus")
				s, err := simulate(r.megatronConfig("full", false, gpus/r.count("tp")/r.count("pp")) + korthikantiMachine)
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
