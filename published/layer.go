package published

import (
	"fmt"
	"strconv"
	"time"

	"psim/schedules/graph"
)

// korthikantiTable4 returns the times of a single layer, as parts of the step times of
// table 5.
func korthikantiTable4() Table {
	return Table{
		Name: "korthikanti-2022-table-4", Title: "forward and backward of one layer of 22B", Figure: "korthikanti-layer",
		Paper: korthikantiPaper, Place: "table 4",
		Device: "korthikanti-2022-table-5",
		Note: "The machine is that of korthikanti-2022-table-5, whose errors these are parts of. No constant is fitted to this table, but which mechanisms are modelled was decided with it in view. " +
			"Forwards are too fast and backwards too slow, which a part of their exchanges runs beside.",
		Rows: func() ([]Row, error) {
			return rowsPer(records("korthikanti_layer.csv"), func(r record) ([]Row, error) {
				forward, backward, err := r.layer(korthikantiMachine)
				row := func(pass string, predicted time.Duration) Row {
					return Row{
						Label: r.text("experiment") + ", " + pass, Unit: "ms",
						Published: r.number(pass + "_ms"), Predicted: predicted.Seconds() * 1e3,
					}
				}
				return []Row{row("forward", forward), row("backward", backward)}, err
			})
		},
	}
}

// layerParts splits the error of a row of 22B, whose step is one microbatch on one
// stage: forwards and backwards of its layers, as table 4 has them, and the rest.
func (r record) layerParts(row Row, machine string, selective bool) ([]Part, error) {
	recompute := "full"
	if selective {
		recompute = "selective"
	}
	layers := r.number("layers")
	for _, l := range records("korthikanti_layer.csv") {
		if l.text("recompute") != recompute || l.text("sequence") != strconv.FormatBool(selective) {
			continue
		}
		forward, backward, err := l.layer(machine)
		share := func(predicted time.Duration, column string) float64 {
			return layers * (predicted.Seconds() - l.number(column)/1e3) / row.Published
		}
		parts := []Part{{"forward of the layers", share(forward, "forward_ms")}, {"backward", share(backward, "backward_ms")}}
		return append(parts, Part{"the rest", row.Error() - parts[0].Error - parts[1].Error}), err
	}
	return nil, fmt.Errorf("korthikanti_layer.csv has no layer with %s recomputation", recompute)
}

// layer returns what a layer adds to F and B: 24 of them, divided by as many.
func (r record) layer(machine string) (forward, backward time.Duration, err error) {
	const few, many = 24, 48
	for _, n := range []int{many, few} {
		s, err := simulate(fmt.Sprintf(`
[schedule]
name = "1f1b"
stages = 1
[model]
preset = "megatron-22b"
layers = %d
[batch]
global = 4
micro = 4
[parallel]
tensor = 8
sequence = %s
tensor_overlap = false
[train]
precision = "fp16"
recompute = %q
`, n, r.text("sequence"), r.text("recompute")) + machine)
		if err != nil {
			return 0, 0, err
		}
		f, b := passes(s.Trace, allStages)
		if n == few {
			f, b = -f, -b
		}
		forward, backward = forward+f, backward+b
	}
	return forward / (many - few), backward / (many - few), nil
}

// allStages stands for every stage.
const allStages = -1

// passes returns how long the forwards and the backwards of a stage take.
func passes(trace *graph.Trace, stage int) (forward, backward time.Duration) {
	for i, t := range trace.Graph.Tasks() {
		if stage != allStages && int(t.Stage) != stage {
			continue
		}
		switch t.Kind {
		case graph.Forward:
			forward += trace.Span(i).Duration()
		case graph.Backward:
			backward += trace.Span(i).Duration()
		}
	}
	return forward, backward
}
