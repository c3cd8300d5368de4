package published

import (
	"strings"

	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/training"
)

// korthikantiActivations returns the activation memory of a device of the first stage.
func korthikantiActivations() Table {
	return Table{
		Name: "korthikanti-2022-figure-1", Title: "activation memory of a device, 22B to 1T parameters", Figure: "korthikanti-activations",
		Paper: korthikantiPaper, Place: "figure 1, as Calculon's validation data have it",
		Note: "The published numbers are what the paper's formulas give, to the last digit, and so are psim's.",
		Rows: func() ([]Row, error) {
			return activationRows([]activations{
				{"no recomputation", "none_gib", "none", false}, {"selective, sequence parallel", "selective_sequence_gib", "selective", true},
			}, func(r record, layer float64) float64 {
				// The first stage of a pipeline holds a microbatch for every stage.
				p, v := float64(r.count("pp")), float64(r.count("virtual_stages"))
				held := float64(r.count("layers"))
				if v > 1 {
					held *= 1 + (p-1)/(p*v) // and of an interleaved one a few more (section 4.2.3)
				}
				return held * layer / (1 << 30)
			}, "GiB")
		},
	}
}

// korthikantiShares returns what a layer keeps, as a share of what it keeps without
// sequence parallelism and recomputation.
func korthikantiShares() Table {
	return Table{
		Name: "korthikanti-2022-figure-7", Title: "activations of a layer with recomputation and sequence parallelism", Figure: "korthikanti-shares",
		Paper: korthikantiPaper, Place: "figure 7, as Calculon's validation data have it",
		Rows: func() ([]Row, error) {
			return activationRows([]activations{
				{"sequence parallel", "sequence_pct", "none", true}, {"selective", "selective_pct", "selective", false},
				{"selective, sequence parallel", "selective_sequence_pct", "selective", true}, {"full", "full_pct", "full", false},
			}, func(r record, layer float64) float64 {
				whole, _ := r.kept("none", false) // fails only where the layer does
				return 100 * layer / whole
			}, "%")
		},
	}
}

// activations names a way to keep less of a layer, and the column that has it.
type activations struct {
	name, column, recompute string
	sequence                bool
}

func activationRows(ways []activations, value func(r record, layer float64) float64, unit string) ([]Row, error) {
	return rowsPer(records("korthikanti_memory.csv"), func(r record) ([]Row, error) {
		return rowPer(ways, func(w activations) (Row, error) {
			layer, err := r.kept(w.recompute, w.sequence)
			return Row{
				Label: strings.ToUpper(r.text("model")) + ", " + w.name, Unit: unit,
				Published: r.number(w.column), Predicted: value(r, layer),
			}, err
		})
	})
}

// kept returns the bytes of fp16 that one of 8 devices keeps of a transformer layer for
// a microbatch.
func (r record) kept(recompute string, sequence bool) (float64, error) {
	n, err := models.Model{Preset: "megatron-" + r.text("model")}.On(group.Group{Devices: 8, Sequence: sequence})
	if err != nil {
		return 0, err
	}
	var bytes int64
	for _, b := range (training.Options{Precision: "fp16", Recompute: recompute}).Kept(n.Layers[1]) {
		bytes += b.Bytes(2)
	}
	return float64(bytes) * r.number("micro_batch"), nil
}
