package questions

import (
	"time"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/partition"
	"psim/schedules/wiring"
)

// boundaryTraffic returns question 2.3: what partitions of a network exchange.
func boundaryTraffic() []question {
	// Sizes of GPT-2 small at 128 tokens: activations in FP32, gradients here
	// in half of that, so that the two directions cannot be confused.
	given := func(symbol, meaning string, bytes int64) []Symbol {
		return []Symbol{
			{"L", "layers; do not enter", 12}, {"P", "partitions of equal size", 4}, {"B", "samples of the batch", 32},
			{symbol, meaning, bytes}, {"M", "microbatches of the simulated pipeline; do not enter", 4},
		}
	}
	forward := question{
		id: "2.3a", title: "bytes between partitions, forward",
		text:    "A network of L layers is cut into P equal partitions, and every layer takes an input of N_f bytes per sample: how many bytes pass between the partitions while a batch of B samples goes forward?",
		given:   given("N_f", "bytes of a layer's input, per sample", 393_216),
		formula: "(P-1) * B * N_f", unit: "bytes",
		closedForm: func(v values) float64 { return float64((v["P"] - 1) * v["B"] * v["N_f"]) },
		simulate:   traffic(graph.SendForward), cases: trafficCases(), further: trafficChecks(graph.SendForward),
		simulation: "gpipe over the boundaries that the cut of the layers gives; the sizes of all messages of the forward are added up.",
		note:       "There are P-1 boundaries however many layers lie between them, and microbatches only cut the same bytes into more messages.",
		readings: []Reading{
			reading("N_f is the tensor of the whole batch", "(P-1) * N_f", 1_179_648, "bytes"),
			reading("loading the first partition's input counts too", "P * B * N_f", 50_331_648, "bytes"),
		},
	}
	backward := question{
		id: "2.3b", title: "bytes between partitions, backward",
		text:    "In the same network the gradient of every layer's output takes N_b bytes per sample: how many bytes pass between the P partitions while a batch of B samples goes backward?",
		given:   given("N_b", "bytes of the gradient of a layer's output, per sample", 196_608),
		formula: "(P-1) * B * N_b", unit: "bytes",
		closedForm: func(v values) float64 { return float64((v["P"] - 1) * v["B"] * v["N_b"]) },
		simulate:   traffic(graph.SendBackward), cases: trafficCases(), further: trafficChecks(graph.SendBackward),
		simulation: "gpipe over the boundaries that the cut of the layers gives; the sizes of all messages of the backward are added up.",
		note:       "Each boundary carries the gradient of the earlier partition's output, in the opposite direction.",
		readings: []Reading{
			reading("N_b is the tensor of the whole batch", "(P-1) * N_b", 589_824, "bytes"),
		},
	}
	return []question{forward, backward}
}

// trafficCases are the cases of both directions.
func trafficCases() []values {
	return []values{{"P": 1}, {"P": 2}, {"P": 8, "L": 24}, {"P": 6, "L": 48}, {"B": 64}, {"B": 1, "M": 1}, {"M": 1}}
}

// cut returns the pipeline that a cut of equal layers gives. A symbol that a
// question does not have is 0: there is nothing to send in that direction.
func cut(schedule string, v values) (pipeline, error) {
	layers, err := partition.Equal(int(v["L"]), int(v["P"]))
	if err != nil {
		return pipeline{}, err
	}
	inputs := make([]wiring.Boundary, v["L"]) // what each layer takes, and gives back
	for i := range inputs {
		inputs[i] = wiring.Boundary{Forward: v["N_f"], Backward: v["N_b"]}
	}
	boundaries, first := []wiring.Boundary{}, 0
	for _, n := range layers[:len(layers)-1] {
		first += n
		boundaries = append(boundaries, inputs[first])
	}
	samples, err := schedules.Batch{Global: v["B"]}.Samples(1, int(v["M"]))
	return pipeline{
		schedule: schedule, stages: v["P"], microbatches: v["M"], samples: samples, boundaries: boundaries,
		times: uniform(10*time.Millisecond, 20*time.Millisecond),
	}, err
}

// traffic sums the messages of one direction.
func traffic(direction graph.Kind) func(values) (float64, error) {
	return func(v values) (float64, error) {
		p, err := cut("gpipe", v)
		if err != nil {
			return 0, err
		}
		r, err := p.run()
		if err != nil {
			return 0, err
		}
		return float64(r.bytes(direction)), nil
	}
}

// trafficChecks adds the naive schedule, what the ranks report to have sent in
// both directions, and a grid of shapes.
func trafficChecks(direction graph.Kind) func(question) ([]Check, error) {
	return func(q question) ([]Check, error) {
		v := q.sample().with(values{"N_f": 393_216, "N_b": 196_608})
		p, err := cut("model-parallel", v)
		if err != nil {
			return nil, err
		}
		r, err := p.run()
		if err != nil {
			return nil, err
		}
		both := float64((v["P"] - 1) * v["B"] * (v["N_f"] + v["N_b"]))
		grid, err := q.counted("gpipe with P = 1…8, L = P, 2P, 3P, B = 1, 32, 64 and M = 1, 2, 4 up to B", trafficGrid())
		return []Check{
			check("model-parallel, the same direction", q.closedForm(v), float64(r.bytes(direction)), "bytes", 0),
			check("model-parallel, (P-1) * B * (N_f + N_b) sent by all ranks", both, float64(sum(r.perRank(sent))), "bytes", 0),
			grid,
		}, err
	}
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
