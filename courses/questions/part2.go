package questions

import (
	"fmt"
	"slices"
	"time"

	"psim/schedules/graph"
	"psim/schedules/partition"
	"psim/schedules/wiring"
)

// boundaryTraffic returns question 2.3: what partitions of a network exchange.
func boundaryTraffic() []question {
	// Sizes of GPT-2 small at 128 tokens: activations in FP32, gradients here
	// in half of that, so that the two directions cannot be confused.
	return []question{
		trafficOf(graph.SendForward, tensor("N_f", "bytes of a layer's input, per sample", 393_216), question{
			id: "2.3a", title: "bytes between partitions, forward",
			text: "A network of L layers is cut into P equal partitions, and every layer takes an input of N_f bytes per sample: how many bytes pass between the partitions while a batch of B samples goes forward?",
			note: "There are P-1 boundaries however many layers lie between them, and microbatches only cut the same bytes into more messages.",
			readings: []Reading{
				reading("N_f is the tensor of the whole batch", "(P-1) * N_f", "bytes"),
				reading("loading the first partition's input counts too", "P * B * N_f", "bytes"),
			},
			simulation: "gpipe over the boundaries that the cut of the layers gives; the sizes of all messages of the forward are added up.",
		}),
		trafficOf(graph.SendBackward, tensor("N_b", "bytes of the gradient of a layer's output, per sample", 196_608), question{
			id: "2.3b", title: "bytes between partitions, backward",
			text: "In the same network the gradient of every layer's output takes N_b bytes per sample: how many bytes pass between the P partitions while a batch of B samples goes backward?",
			note: "Each boundary carries the gradient of the earlier partition's output, in the opposite direction.",
			readings: []Reading{
				reading("N_b is the tensor of the whole batch", "(P-1) * N_b", "bytes"),
			},
			simulation: "gpipe over the boundaries that the cut of the layers gives; the sizes of all messages of the backward are added up.",
		}),
	}
}

// trafficOf adds to a question on one direction what both have in common; size is
// the symbol of its messages.
func trafficOf(direction graph.Kind, size Symbol, q question) question {
	q.given = []Symbol{
		{"L", "layers; do not enter", "layers", 12, 1, 1024, 1}, {"P", "partitions of equal size", "partitions", 4, 1, 128, 1},
		{"B", "samples of the batch", "samples", 32, 1, 1 << 16, 1}, size,
		{"M", "microbatches of the simulated pipeline; do not enter", "microbatches", 4, 1, 1024, 1},
	}
	q.formula, q.unit = "(P-1) * B * "+size.Name, "bytes"
	q.steps = []Step{
		step("P partitions in a row meet at P-1 boundaries, however many layers each has", "P-1", "boundaries"),
		step("A tensor of "+size.Name+" bytes crosses each for every sample", "(P-1) * "+size.Name, "bytes"),
		step("There are B samples, however they are cut into microbatches", q.formula, "bytes"),
	}
	q.needs = cuts
	q.run = func(v values) (run, error) { return cut("gpipe", v) }
	q.read = func(r run) float64 { return r.bytes(direction) }
	q.cases = []values{{"P": 1}, {"P": 2}, {"P": 8, "L": 24}, {"P": 6, "L": 48}, {"B": 64}, {"B": 1, "M": 1}, {"M": 1}}
	q.further = trafficChecks
	q.gridName, q.grid = "gpipe with P = 1…8, L = P, 2P, 3P, B = 1, 32, 64 and M = 1, 2, 4 up to B", trafficGrid()
	return q
}

// cuts refuses partitions without a layer and microbatches without a sample.
func cuts(v values) error {
	switch {
	case v["P"] > v["L"]:
		return fmt.Errorf("there are P = %d partitions of L = %d layers; give at most as many partitions as layers", v["P"], v["L"])
	case v["M"] > v["B"]:
		return fmt.Errorf("there are M = %d microbatches of B = %d samples; give at most as many microbatches as samples", v["M"], v["B"])
	}
	return nil
}

// cut simulates the pipeline that a cut of equal layers gives. A symbol that a
// question does not have is 0: there is nothing to send in that direction.
func cut(schedule string, v values) (run, error) {
	layers, err := partition.Equal(int(v["L"]), int(v["P"]))
	if err != nil {
		return run{}, err
	}
	boundary := wiring.Boundary{Forward: v["N_f"], Backward: v["N_b"]} // what every layer takes, and gives back
	boundaries := slices.Repeat([]wiring.Boundary{boundary}, len(layers)-1)
	microbatches, err := partition.Equal(int(v["B"]), int(v["M"]))
	if err != nil {
		return run{}, err
	}
	var samples []int64
	for _, n := range microbatches {
		samples = append(samples, int64(n))
	}
	return pipeline{
		schedule: schedule, stages: v["P"], microbatches: v["M"], samples: samples, boundaries: boundaries,
		times: uniform(10*time.Millisecond, 20*time.Millisecond),
	}.run()
}

// trafficChecks adds the naive schedule, what the ranks report to have sent in
// both directions.
func trafficChecks(q question, _ run) ([]Check, error) {
	v := values{"N_f": 393_216, "N_b": 196_608}.with(q.sample())
	r, err := cut("model-parallel", v)
	if err != nil {
		return nil, err
	}
	both := float64((v["P"] - 1) * v["B"] * (v["N_f"] + v["N_b"]))
	return []Check{
		check("model-parallel, the same direction", q.closedForm(v), q.read(r), "bytes"),
		check("model-parallel, (P-1) * B * (N_f + N_b) sent by all ranks", both, sum(r.perRank(sent)), "bytes"),
	}, nil
}

func trafficGrid() []values {
	var grid []values
	for p := int64(1); p <= 8; p++ {
		for layers := p; layers <= 3*p; layers += p {
			for _, b := range []int64{1, 32, 64} {
				for _, m := range []int64{1, 2, 4} {
					if m <= b {
						grid = append(grid, values{"P": p, "L": layers, "B": b, "M": m})
					}
				}
			}
		}
	}
	return grid
}
