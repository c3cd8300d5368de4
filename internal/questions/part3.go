package questions

import (
	"fmt"
	"slices"

	"psim/costmodel/arch"
)

// sharding shares memory out in one of the ways of the third part.
type sharding struct {
	part, title, text string
	// formula and adam without a master copy, for equal and mixed precision.
	equal, equalMoments, mixed, mixedMoments string
	// bytes is what a worker holds of parameters, gradients and optimizer
	// states whose sizes are given.
	bytes func(parameters, gradients, states, workers int64) int64
}

// shardings lists ZeRO stages 0 to 3.
func shardings() []sharding {
	return []sharding{
		{
			"a", "nothing sharded", "when nothing is sharded",
			"5*P*S / 8", "4*P*S / 8", "P * (Sp + Sg + K*So) / 8", "P * (Sp + Sg + 2*So) / 8",
			func(p, g, s, _ int64) int64 { return p + g + s },
		}, {
			"b", "optimizer sharded", "when the optimizer states are sharded",
			"(2 + 3/W) * P*S / 8", "(2 + 2/W) * P*S / 8", "P * (Sp + Sg + K*So/W) / 8", "P * (Sp + Sg + 2*So/W) / 8",
			func(p, g, s, w int64) int64 { return p + g + s/w },
		}, {
			"c", "optimizer and gradients sharded", "when optimizer states and gradients are sharded",
			"(1 + 4/W) * P*S / 8", "(1 + 3/W) * P*S / 8", "P * (Sp + (Sg + K*So)/W) / 8", "P * (Sp + (Sg + 2*So)/W) / 8",
			func(p, g, s, w int64) int64 { return p + (g+s)/w },
		}, {
			"d", "everything sharded", "when parameters, gradients and optimizer states are all sharded",
			"5*P*S / 8 / W", "4*P*S / 8 / W", "P * (Sp + Sg + K*So) / 8 / W", "P * (Sp + Sg + 2*So) / 8 / W",
			func(p, g, s, w int64) int64 { return (p + g + s) / w },
		},
	}
}

// shardedSymbolic returns question 3.2, in which every number has S bits and the
// optimizer is Adam with a copy of the parameters.
func shardedSymbolic() []question {
	samples := []float64{160e9, 90e9, 55e9, 20e9} // of the moments alone
	var questions []question
	for zero, s := range shardings() {
		questions = append(questions, sharded(zero, question{
			id: "3.2" + s.part, title: "memory of a worker, " + s.title,
			text: "Adam keeps three variables per parameter, namely a copy of it, momentum and variance, and all numbers have S bits: how many bytes does each of W workers hold " + s.text + "?",
			given: []Symbol{
				{"P", "parameters", 10e9}, {"S", "bits per number", 32}, {"W", "workers", 8},
			},
			formula: s.equal,
			closedForm: func(v values) float64 {
				one := v["P"] * v["S"] / 8
				return float64(s.bytes(one, one, 3*one, v["W"]))
			},
			simulation: "with a state of 1 + 1 + 3 numbers per parameter",
			cases:      []values{{"W": 1}, {"W": 2}, {"W": 16}, {"S": 16}, {"P": 1_048_576, "S": 64, "W": 4}},
			readings: []Reading{
				reading("two variables per parameter, the moments alone", s.equalMoments, samples[zero], "bytes"),
			},
		}, func(v values) trainer { return replicas(v.with(values{"K": 3})) }))
	}
	return questions
}

// shardedMixed returns question 3.3: the same in mixed precision.
func shardedMixed() []question {
	samples := [][2]float64{{160e9, 120e9}, {55e9, 50e9}, {37.5e9, 32.5e9}, {20e9, 15e9}} // of K = 3 and K = 2
	var questions []question
	for zero, s := range shardings() {
		questions = append(questions, sharded(zero, question{
			id: "3.3" + s.part, title: "mixed precision, " + s.title,
			text: "Ten billion parameters are trained on eight workers with parameters and gradients in FP16 and Adam's three variables in FP32: how many bytes does each worker hold " + s.text + "?",
			given: []Symbol{
				{"P", "parameters", 10e9}, {"W", "workers", 8}, {"K", "optimizer variables", 3},
				{"Sp", "bits of a parameter", 16}, {"Sg", "bits of a gradient", 16}, {"So", "bits of an optimizer variable", 32},
			},
			formula: s.mixed,
			closedForm: func(v values) float64 {
				return float64(s.bytes(v["P"]*v["Sp"]/8, v["P"]*v["Sg"]/8, v["K"]*v["P"]*v["So"]/8, v["W"]))
			},
			simulation: `with precision = "fp16" and optimizer = "adam"`,
			cases:      []values{{"W": 1}, {"W": 2}, {"W": 16}, {"P": 1_048_576, "W": 4}},
			readings: []Reading{
				reading("two variables per parameter, without the FP32 copy", s.mixedMoments, samples[zero][1], "bytes"),
				reading("in binary units", s.mixed+" / 1024 / 1024 / 1024", samples[zero][0]/gibibyte, "GiB"),
			},
		}, func(v values) trainer {
			return trainer{parameters: v["P"], workers: v["W"], training: arch.Training{Precision: "fp16", Optimizer: "adam"}}
		}))
	}
	questions[0].note = "The assignment asks for the sharded variants alone; this is what they are measured against."
	return questions
}

// sharded adds to a question on the memory of a worker what those of one ZeRO stage
// have in common: a step is simulated, and what the fullest worker keeps is read off.
func sharded(zero int, q question, train func(values) trainer) question {
	q.unit = "bytes"
	q.simulation = fmt.Sprintf("The memory ledger of data-parallel training at ZeRO stage %d, %s; the persistent memory of the fullest rank.", zero, q.simulation)
	q.run = func(v values) (run, error) {
		t := train(v)
		t.zero = zero
		return t.run()
	}
	q.read = func(r run) float64 { return slices.Max(r.perRank(persistent)) }
	q.further = emptiest
	if zero == 3 {
		q.further = emptiestAndPeak
		q.note = "Counted is what stays. The peak shown is that of four layers without activations, of a tenth to four tenths of the parameters: two are gathered at a time, with the gradients of two."
	}
	return q
}

// emptiest looks at the other workers.
func emptiest(q question, r run) ([]Check, error) {
	return []Check{check("the emptiest worker", q.closedForm(q.sample()), slices.Min(r.perRank(persistent)), "bytes")}, nil
}

// emptiestAndPeak also looks at the peak, which may not be less than what stays.
func emptiestAndPeak(q question, r run) ([]Check, error) {
	checks, err := emptiest(q, r)
	closed, top := q.closedForm(q.sample()), slices.Min(r.perRank(peak))
	return append(checks, Check{"peak, at least what stays", closed, top, "bytes", top >= closed}), err
}
